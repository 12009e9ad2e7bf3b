"""Tables of results: columns, in Python's own values, that become frames of other libraries."""

from __future__ import annotations

import dataclasses
from typing import Any, Tuple

__all__ = ["Column", "Tabular"]


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    kind: str
    """boolean, int64, uint64, double or string."""
    values: Tuple[Any, ...] = dataclasses.field(repr=False)
    """One for each row; None where there is none."""


class Tabular:
    """What has a table."""

    def columns(self) -> Tuple[Column, ...]:
        """The table in Python's own values."""
        raise NotImplementedError

    def frame(self) -> Any:
        """The table as a `pandas.DataFrame`, with pandas' own nullable types; without pandas as a
        `pyarrow.Table`. Whole numbers stay whole.

        Raises ImportError where neither is installed.
        """
        try:
            import pandas
        except ImportError:
            return self.arrow()
        kinds = {
            "boolean": "boolean",
            "int64": "Int64",
            "uint64": "UInt64",
            "double": "Float64",
            "string": "string",
        }
        columns = self.columns()
        return pandas.DataFrame(
            {one.name: pandas.array(list(one.values), dtype=kinds[one.kind]) for one in columns}
        )

    def arrow(self) -> Any:
        """The table as a `pyarrow.Table`.

        Raises ImportError where pyarrow is not installed.
        """
        try:
            import pyarrow
        except ImportError:
            raise ImportError(
                "frame() makes a table of pandas or pyarrow, and neither is installed: "
                "pip install pandas, or take columns()"
            ) from None
        kinds = {
            "boolean": pyarrow.bool_(),
            "int64": pyarrow.int64(),
            "uint64": pyarrow.uint64(),
            "double": pyarrow.float64(),
            "string": pyarrow.string(),
        }
        return pyarrow.table(
            {one.name: pyarrow.array(one.values, kinds[one.kind]) for one in self.columns()}
        )
