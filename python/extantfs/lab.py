"""The laboratory: the engine of the package on models of drives, in virtual time.

    from extantfs import lab

    report = lab.run("read-cold", drive="ide-2001-7200")
    print(report.measures[0].elapsed_s, "s")
    report.frame()

Each function does what the command `extant lab` of its name does, and returns what that prints with
`--json`: the same bytes in `json`, their fields as values that do not change, and the table that
`--csv`, `--jsonl` and `--parquet` write as `frame()`. `docs/LAB.md` of the project says what is
asked and what the answers mean.
"""

from __future__ import annotations

import dataclasses
import json as _json
import os
from typing import Any, Callable, Iterable, Optional, Tuple, Union

from . import _native
from ._errors import LabError
from ._reports import T, _of
from ._table import Column, Tabular

__all__ = [
    "Age",
    "AgeSample",
    "AgeSeries",
    "Cell",
    "Column",
    "Fit",
    "FittedValue",
    "LabError",
    "Measure",
    "Post",
    "PostRow",
    "PostTable",
    "Posts",
    "Replay",
    "Result",
    "Run",
    "Step",
    "Value",
    "age",
    "fit",
    "posts",
    "replay",
    "run",
]

Pathlike = Union[str, "os.PathLike[str]"]
Progress = Callable[[int, Optional[int]], object]

_SEED_MAX = 2**63 - 1


@dataclasses.dataclass(frozen=True, eq=False)
class Result(Tabular):
    """What all results have. Two are equal whose `json` is."""

    json: bytes = dataclasses.field(repr=False)
    """What the command prints with `--json`, to the byte."""
    details: dict[str, Any] = dataclasses.field(repr=False)
    """The same, parsed: all that is known."""
    _found: _native.Found = dataclasses.field(repr=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Result):
            return NotImplemented
        return self.json == other.json

    def __hash__(self) -> int:
        return hash(self.json)

    def columns(self) -> Tuple[Column, ...]:
        """The table of the result, in Python's own values: see docs/LAB.md, "Results for other
        programs"."""
        found = self._found.columns()
        return tuple(Column(name, kind, tuple(values)) for name, kind, values in found)

    def to_csv(self, path: Pathlike) -> None:
        """Writes the table as the command's `--csv` does. A file that is there is replaced."""
        self._found.write("csv", os.fsencode(path))

    def to_jsonl(self, path: Pathlike) -> None:
        """The same as JSON Lines."""
        self._found.write("jsonl", os.fsencode(path))

    def to_parquet(self, path: Pathlike) -> None:
        """The same as Parquet, without any other library."""
        self._found.write("parquet", os.fsencode(path))


class _Elapsed:
    """What has a time."""

    elapsed_ns: int

    @property
    def elapsed_s(self) -> float:
        """The time in seconds."""
        return self.elapsed_ns / 1e9


@dataclasses.dataclass(frozen=True)
class Measure(_Elapsed):
    """A row that a scenario measures."""

    process: str
    copy: Optional[int]
    """Of several copies of a process; None: all together."""
    measure: str
    started_ns: int
    elapsed_ns: int
    traffic: dict[str, Any] = dataclasses.field(repr=False, hash=False)
    """What the drive did meanwhile."""
    work: dict[str, Any] = dataclasses.field(repr=False, hash=False)
    """What was done."""


@dataclasses.dataclass(frozen=True)
class Step(_Elapsed):
    """A step of a process."""

    process: str
    copy: int
    number: Tuple[int, ...]
    step: str
    label: str
    runs: int
    started_ns: int
    elapsed_ns: int
    traffic: dict[str, Any] = dataclasses.field(repr=False, hash=False)
    work: dict[str, Any] = dataclasses.field(repr=False, hash=False)


@dataclasses.dataclass(frozen=True)
class Value:
    """A figure that a scenario computes from its measures."""

    name: str
    value: str
    """The expression."""
    unit: str
    millionths: Optional[int]
    reason: Optional[str]
    """Why there is no value."""

    @property
    def number(self) -> Optional[float]:
        """In its unit."""
        return None if self.millionths is None else self.millionths / 1e6


@dataclasses.dataclass(frozen=True, eq=False)
class Run(Result, _Elapsed):
    """A scenario that ran."""

    scenario: str
    seed: int
    scale: int
    model_version: int
    elapsed_ns: int
    measures: Tuple[Measure, ...] = dataclasses.field(repr=False)
    steps: Tuple[Step, ...] = dataclasses.field(repr=False)
    results: Tuple[Value, ...] = dataclasses.field(repr=False)
    trace_hash: Optional[str]
    """Over every command that the drives got: equal for equal runs."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """A row of a post in one column. Times are nanoseconds, ratios thousandths."""

    posted: Optional[int]
    """What the post measured."""
    ours: Optional[int]
    """What the model gives."""
    unit: Optional[str]
    """nanoseconds, count or permille."""
    ratio_permille: Optional[int]
    """Ours over the post's."""


@dataclasses.dataclass(frozen=True)
class PostRow:
    """What was measured, in one line of a table."""

    what: str
    agreement: str
    """Which agreement is asked for: exact, ratio, absolute and so on."""
    verdict: str
    """agrees, outside, misses, shown or not-modelled."""
    cells: Tuple[Cell, ...]
    """One for each column of the table."""


@dataclasses.dataclass(frozen=True)
class PostTable:
    """Rows of measurements against columns of systems."""

    title: str
    columns: Tuple[str, ...]
    policies: Tuple[str, ...]
    """Of each column."""
    rows: Tuple[PostRow, ...] = dataclasses.field(repr=False)

    def cell(self, row: str, column: str) -> Cell:
        """The cell of that row and column; KeyError where there is none."""
        for one in self.rows:
            if one.what == row and column in self.columns:
                return one.cells[self.columns.index(column)]
        raise KeyError((row, column))


@dataclasses.dataclass(frozen=True)
class Post:
    """A post of the mailing lists."""

    number: int
    origin: str
    title: str
    claim: str
    drive: str
    processor: str
    seeds: Tuple[int, ...]
    tables: Tuple[PostTable, ...] = dataclasses.field(repr=False)
    notes: Tuple[str, ...] = dataclasses.field(repr=False)
    trace_hash: str

    def table(self, title: str) -> PostTable:
        """The table whose title begins so; KeyError where there is none."""
        for one in self.tables:
            if one.title.startswith(title):
                return one
        raise KeyError(title)


@dataclasses.dataclass(frozen=True, eq=False)
class Posts(Result):
    """Posts that were run."""

    scale: str
    """quick or full."""
    model_version: int
    posts: Tuple[Post, ...]

    @property
    def misses(self) -> Tuple[PostRow, ...]:
        """Rows that do not agree and have to: the command's exit code is 1 where there is one."""
        tables = [table for post in self.posts for table in post.tables]
        return tuple(row for table in tables for row in table.rows if row.verdict == "misses")


@dataclasses.dataclass(frozen=True, eq=False)
class Replay(Result):
    """A trace that was replayed on a drive."""

    drive: str
    requests: int
    mean_ms: Optional[float]
    """The mean of their times on the model."""
    measured_mean_ms: Optional[float]
    """The mean where they were traced, where that is known."""
    times_ns: Optional[Tuple[int, ...]] = dataclasses.field(repr=False)
    """Each; None of traces of other systems, whose sums are in `details`."""


@dataclasses.dataclass(frozen=True)
class FittedValue:
    """A value of a drive that was fitted."""

    name: str
    value: str
    least: Optional[str]
    most: Optional[str]
    known: str
    """identified, at-least, at-most, not-identified or chosen."""


@dataclasses.dataclass(frozen=True, eq=False)
class Fit(Result):
    """A drive that explains what a device did."""

    target: str
    kind: str
    """rotating, ssd, network or object."""
    distance: float
    """The mean distance of what was measured from what the drive gives."""
    cut_short: bool
    """Whether the time was over before the search was."""
    values: Tuple[FittedValue, ...] = dataclasses.field(repr=False)
    drive_file: str = dataclasses.field(repr=False)
    """TOML, which `drive=` takes as a file."""


@dataclasses.dataclass(frozen=True)
class AgeSample:
    """A volume at one time."""

    day: int
    month: int
    files: int
    directories: int
    utilisation_ppm: int
    layout_score_ppm: Optional[int]
    """A million is perfect: each block comes right after the one before."""
    fragmented_files: int
    details: dict[str, Any] = dataclasses.field(repr=False, hash=False, compare=False)


@dataclasses.dataclass(frozen=True)
class AgeSeries:
    """A volume over the months, under some policies."""

    name: str
    policies: str
    samples: Tuple[AgeSample, ...] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, eq=False)
class Age(Result):
    """Months of use of a volume."""

    name: str
    seed: int
    drive: str
    volume_bytes: int
    series: Tuple[AgeSeries, ...]


def run(
    scenario: Pathlike,
    *,
    image: Optional[Pathlike] = None,
    drive: Optional[Pathlike] = None,
    preset: Optional[str] = None,
    seed: Optional[int] = None,
    scale: int = 1,
    processor: Optional[str] = None,
    progress: Optional[Progress] = None,
) -> Run:
    """Runs a scenario in virtual time: a built-in one, or a TOML file.

    `image` is copied in place of the first file system, `drive` (built in, or a file) and `preset`
    (policies: a preset, columns, or both) are in place of the scenario's. `scale` divides counts.
    The same arguments give the same bytes, on any machine.

    `progress` is called with how many calls were made so far. Raises ValueError for names that mean
    nothing and for scenarios that are wrong, OSError for files, `LabError` for a run that failed.
    """
    wishes = _wishes(
        image=_path(image),
        drive=_word("drive", drive),
        preset=preset,
        seed=_whole("seed", seed, 0, _SEED_MAX),
        scale=_whole("scale", scale, 1, 2**64 - 1),
        processor=processor,
    )
    fields = _Fields(_native.lab_run(_required("scenario", scenario), wishes, progress))
    details = fields.details
    return fields.make(
        Run,
        measures=tuple(_of(Measure, one) for one in details["measures"]),
        steps=tuple(_of(Step, one) for one in details["steps"]),
        results=tuple(_of(Value, one) for one in details.get("results", ())),
    )


def posts(
    numbers: Union[int, Iterable[int]] = (),
    *,
    full: bool = False,
    seed: Optional[int] = None,
    seeds: int = 1,
    progress: Optional[Progress] = None,
) -> Posts:
    """Runs mailing list posts as experiments, all of them where no number is given.

    With `full` as much work as in the posts: minutes instead of seconds. Of several `seeds` each
    value is the median. `progress` is called with how many runs were begun.
    """
    chosen = [numbers] if isinstance(numbers, int) else list(numbers)
    for number in chosen:
        _whole("number", number, 0, 2**32 - 1)
    wishes = _wishes(
        full=full,
        seed=_whole("seed", seed, 0, _SEED_MAX),
        seeds=_whole("seeds", seeds, 1, 1000),
    )
    fields = _Fields(_native.lab_posts(chosen, wishes, progress))
    return fields.make(Posts, posts=tuple(_post(one) for one in fields.details["posts"]))


def replay(
    trace: Pathlike,
    drive: Pathlike,
    *,
    facts: Optional[Pathlike] = None,
    format: str = "auto",
    volume: Optional[str] = None,
    pace: Optional[str] = None,
    beyond: Optional[str] = None,
    seed: int = 1,
    times: bool = False,
    progress: Optional[Progress] = None,
) -> Replay:
    """Replays a trace on a drive.

    Of traces of other systems, which may be of any length, the times of single requests are kept
    for `frame()` only with `times`. `progress` is called with how many requests have ended.
    """
    wishes = _wishes(
        facts=_path(facts),
        format=format,
        volume=volume,
        pace=pace,
        beyond=beyond,
        seed=_whole("seed", seed, 0, 2**64 - 1),
        times=times,
    )
    found = _native.lab_replay(_required("drive", drive), os.fsencode(trace), wishes, progress)
    fields = _Fields(found)
    details = fields.details
    if "times_ns" in details:
        return fields.make(Replay)
    measured = details["measured"]
    return fields.make(
        Replay,
        mean_ms=details["times"]["mean_ns"] / 1e6,
        measured_mean_ms=None if measured is None else measured["mean_ns"] / 1e6,
        times_ns=None,
    )


def fit(
    device: Pathlike,
    *,
    write: Optional[Pathlike] = None,
    time: int = 300,
    buffered: bool = False,
    name: str = "fitted",
    seed: int = 1,
    progress: Optional[Progress] = None,
) -> Fit:
    """Probes a block device or a file, which is only read, and searches the drive that would have
    taken as long.

    `write` is a new file on which writes are probed too, `time` how many seconds all of it may
    take; with `buffered` the page cache may answer. `progress` is called with thousandths of the
    time.
    """
    wishes = _wishes(
        write=_path(write),
        time=_whole("time", time, 5, 86_400),
        buffered=buffered,
        name=name,
        seed=_whole("seed", seed, 0, 2**64 - 1),
    )
    fields = _Fields(_native.lab_fit(os.fsencode(device), wishes, progress))
    values = fields.details["values"]
    return fields.make(Fit, values=tuple(_of(FittedValue, one) for one in values))


def age(
    what: Pathlike,
    *,
    preset: Union[str, Iterable[str]] = (),
    volume: Optional[str] = None,
    months: Optional[int] = None,
    size: Optional[int] = None,
    full: bool = False,
    seed: int = 1,
    processor: Optional[str] = None,
    drive: Optional[Pathlike] = None,
    layout_only: bool = False,
    progress: Optional[Progress] = None,
) -> Age:
    """Lets a volume live for months under several policies: an experiment, a profile, or a TOML
    file of one of the two.

    `preset` are policies in place of the experiment's, `size` is in bytes, and with `layout_only`
    no samples are read on the drive. `progress` is called with how many days were begun, of all
    series together.
    """
    if full and size is not None:
        raise ValueError("full and size exclude each other")
    if layout_only and drive is not None:
        raise ValueError("layout_only and drive exclude each other")
    wishes = _wishes(
        preset=[preset] if isinstance(preset, str) else list(preset),
        volume=volume,
        months=_whole("months", months, 1, 120),
        size=_whole("size", size, 0, 2**64 - 1),
        full=full,
        seed=_whole("seed", seed, 0, _SEED_MAX),
        processor=processor,
        drive=_word("drive", drive),
        layout_only=layout_only,
    )
    fields = _Fields(_native.lab_age(_required("what", what), wishes, progress))
    return fields.make(Age, series=tuple(_series(one) for one in fields.details["series"]))


class _Fields:
    """What a function of the library gave, on its way to a value."""

    def __init__(self, found: _native.Found) -> None:
        self.found = found
        self.json = found.json()
        self.details: dict[str, Any] = _json.loads(self.json)

    def make(self, kind: type[T], **shaped: Any) -> T:
        own = {"json": self.json, "details": self.details, "_found": self.found}
        return _of(kind, {**self.details, **shaped, **own})


def _post(fields: dict[str, Any]) -> Post:
    return _of(Post, {**fields, "tables": [_table(one) for one in fields["tables"]]})


def _table(fields: dict[str, Any]) -> PostTable:
    return PostTable(
        title=fields["title"],
        columns=tuple(one["name"] for one in fields["columns"]),
        policies=tuple(one["policies"] for one in fields["columns"]),
        rows=tuple(_row(one) for one in fields["rows"]),
    )


def _row(fields: dict[str, Any]) -> PostRow:
    return PostRow(
        what=fields["what"],
        agreement=fields["class"],
        verdict=fields["verdict"],
        cells=tuple(_cell(one) for one in fields["cells"]),
    )


def _cell(fields: dict[str, Any]) -> Cell:
    posted, ours = fields["posted"], fields["ours"]
    known = ours or posted
    return Cell(
        posted=None if posted is None else posted["value"],
        ours=None if ours is None else ours["value"],
        unit=None if known is None else known["unit"],
        ratio_permille=fields["ratio_permille"],
    )


def _series(fields: dict[str, Any]) -> AgeSeries:
    samples = tuple(_of(AgeSample, {**one, "details": one}) for one in fields["samples"])
    return AgeSeries(fields["name"], fields["policies"], samples)


def _wishes(**wishes: Any) -> dict[str, Any]:
    return {name: value for name, value in wishes.items() if value is not None}


def _path(path: Optional[Pathlike]) -> Optional[bytes]:
    return None if path is None else os.fsencode(path)


def _word(name: str, word: Optional[Pathlike]) -> Optional[str]:
    return None if word is None else _required(name, word)


def _required(name: str, word: Pathlike) -> str:
    """A name or a path; a path that could be taken for a name is told from it by its folder."""
    if not isinstance(word, (str, os.PathLike)):
        raise TypeError(f"{name}: a name or a path, not {type(word).__name__}")
    text = os.fspath(word)
    if not isinstance(text, str):
        raise TypeError(f"{name}: a path of str, not of {type(text).__name__}")
    if not isinstance(word, str) and os.sep not in text:
        text = os.path.join(os.curdir, text)
    return text


def _whole(name: str, value: Optional[int], least: int, most: int) -> Optional[int]:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: a whole number, not {type(value).__name__}")
    if not least <= value <= most:
        raise ValueError(f"{name}: {value} is not from {least} to {most}")
    return value
