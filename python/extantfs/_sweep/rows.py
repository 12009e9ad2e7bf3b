"""The table of results: what `extant sweep collect` makes of them."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any, Sequence, Tuple

from .._table import Column
from .command import called
from .errors import said_by
from .jobs import SweepJob, result_name
from .store import Directory

__all__ = ["columns"]

# Results that a store is asked for together.
_READ_AT_ONCE = 256


def columns(directory: Directory, jobs: Sequence[SweepJob]) -> Tuple[Column, ...]:
    """The table of these jobs, which have results."""
    if not jobs:
        return ()
    with tempfile.TemporaryDirectory(prefix="extantfs-sweep-") as view:
        # A directory of a sweep with these jobs only.
        os.mkdir(os.path.join(view, "plans"))
        # Plans are called by a digest, which nobody compares.
        name = os.path.join(view, "plans", f"{'0' * 64}.jsonl")
        with open(name, "w", encoding="utf-8") as plan:
            plan.writelines(f"{job.line}\n" for job in jobs)
        results = os.path.join(view, "results")
        if directory.is_local:
            os.symlink(directory.path("results"), results)
        else:
            for at in range(0, len(jobs), _READ_AT_ONCE):
                names = [result_name(job.id) for job in jobs[at : at + _READ_AT_ONCE]]
                for name, text in zip(names, directory.read_all(names)):
                    path = os.path.join(view, *name.split("/"))
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    with open(path, "wb") as file:
                        file.write(text)
        table = os.path.join(view, "table")
        code, printed, log = called(
            ["sweep", "collect", "--json", "--jsonl", "-o", table, "--", view]
        )
        # 1: a result has gone meanwhile.
        if not os.path.exists(table):
            raise said_by(printed, log, code)
        return _read(table)


def _read(path: str) -> Tuple[Column, ...]:
    values: dict[str, list[Any]] = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            for name, value in json.loads(line).items():
                values.setdefault(name, []).append(value)
    return tuple(Column(name, _kind(found), tuple(found)) for name, found in values.items())


def _kind(values: Sequence[Any]) -> str:
    kinds = {type(value) for value in values} - {type(None)}
    if kinds == {bool}:
        return "boolean"
    if kinds == {int}:
        largest = max(value for value in values if value is not None)
        return "int64" if largest < 2**63 else "uint64"
    if kinds and kinds <= {int, float}:
        return "double"
    return "string"
