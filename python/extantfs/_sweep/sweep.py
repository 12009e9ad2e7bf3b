"""`sweep()`: a matrix, and what comes of it."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
import tempfile
import threading
import weakref
from typing import Any, Callable, Iterator, Mapping, Optional, Tuple, Union

from .._table import Column, Tabular
from . import pool, rows
from .jobs import SweepFailure, SweepJob, SweepResult, result_name, result_of
from .matrix import Matrix, bytes_of, planned
from .store import Directory, default_cache, is_address

__all__ = ["Sweep", "sweep"]

Progress = Callable[[int, Optional[int]], object]

# No plan has more jobs unless it is said: that of the command.
_LIMIT = 1_000_000


@dataclasses.dataclass(frozen=True)
class Wishes:
    """What was asked for."""

    workers: Optional[int]
    memory_bytes: Optional[int]
    seconds: Optional[int]
    retries: int
    cache: str
    program: Optional[str]
    resources: Optional[Mapping[str, float]]
    options: Mapping[str, Any]


class Sweep(Tabular):
    """A sweep that is at work, or has ended: what `sweep()` returns.

    *Locking*: `_changed`, for all that another thread writes; never while a file is read.
    """

    def __init__(self, jobs: Tuple[SweepJob, ...], directory: Directory, wishes: Wishes) -> None:
        self.jobs = jobs
        """The jobs, in the order of the plan."""
        self.directory = directory.address
        """Where results are: a path, or an address."""
        self._store = directory
        self._wishes = wishes
        self._by_id = {job.id: job for job in jobs}
        self._changed = threading.Condition()
        self._done: list[str] = []
        self._known: set[str] = set()
        self._before: set[str] = set()
        self._failed: dict[str, SweepFailure] = {}
        self._error: Optional[BaseException] = None
        self._has_ended = False
        self._json: Optional[bytes] = None
        self._cancelled = threading.Event()
        self._progress: Optional[Progress] = None
        self._told: Optional[int] = None

    # What the thread that does the work says.

    def _arrived(self, identity: str, *, was_there: bool = False) -> None:
        """A job has its result. What is said twice counts once."""
        with self._changed:
            if identity in self._by_id and identity not in self._known:
                self._known.add(identity)
                self._failed.pop(identity, None)
                self._done.append(identity)
                if was_there:
                    self._before.add(identity)
                self._changed.notify_all()

    def _gave_up(self, failure: SweepFailure) -> None:
        with self._changed:
            if failure.id not in self._known:
                self._failed[failure.id] = failure
                self._changed.notify_all()

    def _work(self, drive: Callable[["Sweep"], Optional[bytes]]) -> None:
        """The thread that does the work: it says how it ended, in whatever way."""
        printed: Optional[bytes] = None
        error: Optional[BaseException] = None
        try:
            printed = drive(self)
        except BaseException as raised:
            error = raised
        with self._changed:
            self._json = printed
            self._error = error
            self._has_ended = True
            self._changed.notify_all()

    # What its user asks.

    @property
    def results(self) -> Iterator[SweepResult]:
        """The results, each as it comes, from the first; the iterator ends with the sweep. Jobs
        that failed are not among them.

        Raises what `wait()` raises, after the results that there are. Ctrl-C cancels the sweep.
        """
        at = 0
        while True:
            self._wait_for(lambda: len(self._done) > at or self._has_ended)
            with self._changed:
                identities = self._done[at:]
            if not identities:
                break
            for identity in identities:
                at += 1
                yield self.result(identity)
        self._raise()

    def result(self, job: Union[str, SweepJob]) -> SweepResult:
        """The result of a job, or of the job of that id; KeyError if it has none yet."""
        identity = job if isinstance(job, str) else job.id
        with self._changed:
            if identity not in self._known:
                raise KeyError(identity)
        name = result_name(identity)
        text = self._store.read(name)
        return result_of(self._store.shown(name), self._by_id[identity], text)

    @property
    def failed(self) -> Tuple[SweepFailure, ...]:
        """The jobs that were given up so far, in the order of the plan."""
        with self._changed:
            failed = dict(self._failed)
        return tuple(failed[job.id] for job in self.jobs if job.id in failed)

    @property
    def done(self) -> int:
        """How many jobs have a result."""
        with self._changed:
            return len(self._done)

    @property
    def there(self) -> int:
        """How many of these had it before."""
        with self._changed:
            return len(self._before)

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will come."""
        with self._changed:
            return self._has_ended

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel()` was called before the end."""
        return self._cancelled.is_set()

    @property
    def json(self) -> bytes:
        """What `extant sweep run --json` prints; waits for the end. `done` are the jobs that this
        sweep did, `there` those that were done before."""
        self.wait()
        with self._changed:
            if self._json is not None:
                return self._json
        return pool.report(self)

    def wait(self) -> "Sweep":
        """Waits until all jobs have a result or failed, or the sweep was cancelled.

        Raises `SweepError` for workers that cannot run the jobs, OSError for a directory that
        cannot be written, and what `progress` raises. What is done is kept: the same call goes on.
        Ctrl-C cancels the sweep.
        """
        self._wait_for(lambda: self._has_ended)
        self._raise()
        return self

    def cancel(self) -> None:
        """Ends the sweep: jobs that are at work are killed, the others never begin. Returns when
        that is so. Results that are there stay."""
        with self._changed:
            if not self._has_ended:
                self._cancelled.set()
        with self._changed:
            self._changed.wait_for(lambda: self._has_ended)

    def columns(self) -> Tuple[Column, ...]:
        """The table of the results so far: that of `extant sweep collect`, of these jobs. A row for
        each observation of a simulation, or for each other job."""
        with self._changed:
            known = set(self._known)
        return rows.columns(self._store, [job for job in self.jobs if job.id in known])

    def __enter__(self) -> "Sweep":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """The end of the sweep; an exception cancels it."""
        if kind is None:
            self.wait()
        else:
            self.cancel()

    def __repr__(self) -> str:
        state = "ended" if self.has_ended else "at work"
        counts = f"{len(self.jobs)} jobs, {self.done} done, {len(self.failed)} failed"
        return f"<Sweep {self.directory!r}: {counts}, {state}>"

    def _wait_for(self, is_so: Callable[[], bool]) -> None:
        try:
            while True:
                with self._changed:
                    # Not without a time: a wait without one lets no key through on some hosts.
                    reached = self._changed.wait_for(is_so, 0.2)
                    over = len(self._done) + len(self._failed)
                if self._progress is not None and over != self._told:
                    self._told = over
                    self._progress(over, len(self.jobs))
                if reached:
                    return
        except BaseException:
            self.cancel()
            raise

    def _raise(self) -> None:
        with self._changed:
            error = self._error
        if error is not None:
            raise error


def sweep(
    matrix: Matrix,
    directory: Union[str, "os.PathLike[str]", None] = None,
    *,
    client: Any = None,
    workers: Optional[int] = None,
    memory: Union[int, str, None] = None,
    seconds: Optional[int] = None,
    retries: int = 1,
    limit: int = _LIMIT,
    resources: Optional[Mapping[str, float]] = None,
    program: Union[str, "os.PathLike[str]", None] = None,
    cache: Union[str, "os.PathLike[str]", None] = None,
    storage_options: Optional[Mapping[str, Any]] = None,
    progress: Union[Progress, bool, None] = None,
) -> Sweep:
    """Plans the jobs of a matrix, and begins to run them: on the processors of this machine, or on
    the workers of a `distributed.Client`. Returns at once; `wait()` waits, `results` gives each
    result as it comes, and `frame()` the table of those that there are.

    `matrix` is a TOML file, a dict of the same shape, a plan (a file of `extant sweep plan`), or
    the lines of one. `directory` keeps the results: a new one, or one of sweeps, where what is
    done is not done again; without one they go with the returned object. On a cluster it is one
    that all workers share, or an address that fsspec writes (`s3://bucket/night`).

    `workers` is how many processes there are here; a client has its own. `memory` (bytes, or words
    such as "2G") and `seconds` are the limits of jobs whose matrix says nothing, `retries` how
    often a job that failed is tried again, `limit` how many combinations a matrix may have.
    `resources` are what a job takes of the resources that the workers of the cluster declare; if
    nothing is said, its memory of `memory`, and 1 of `processor` or `cpu`. `program` is the
    command that runs the jobs, in place of the package's. `cache` is where images of stores are
    fetched to, the same path on all workers, and `storage_options` what fsspec is given.

    `progress` is called by `wait()` and `results` with how many jobs are over, and how many there
    are; True prints it.

    Raises ValueError for a matrix or a plan that is wrong, with its file and line, InUseError for a
    directory that another sweep works in, OSError for files.
    """
    if client is not None and workers is not None:
        raise ValueError("workers: a client has its own: scale its cluster")
    if client is None and resources is not None:
        raise ValueError("resources: only the workers of a client have them")
    wishes = Wishes(
        workers=_count("workers", workers, 1, 65_535),
        memory_bytes=bytes_of("memory", memory),
        seconds=_count("seconds", seconds, 1, 2**63),
        retries=_count("retries", retries, 0, 1000) or 0,
        cache=os.path.abspath(os.fspath(cache) if cache is not None else default_cache()),
        program=None if program is None else os.fspath(program),
        resources=resources,
        options=dict(storage_options or {}),
    )
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise TypeError("progress: is not callable")
    at = _count("limit", limit, 1, 2**63)
    assert at is not None
    where = _directory(directory, wishes, client)
    jobs = planned(matrix, at, wishes.cache, wishes.options)
    made = Sweep(jobs, where, wishes)
    if directory is None:
        weakref.finalize(made, shutil.rmtree, where.address, ignore_errors=True)
    made._progress = _shown() if progress is True else progress or None
    drive: Callable[[Sweep], Optional[bytes]]
    if client is None:
        drive = pool.prepared(made)
    else:
        from . import on_dask

        drive = on_dask.prepared(made, client)
    threading.Thread(target=made._work, args=(drive,), name="extant sweep", daemon=True).start()
    return made


def _directory(
    directory: Union[str, "os.PathLike[str]", None], wishes: Wishes, client: Any
) -> Directory:
    if directory is None:
        return Directory(tempfile.mkdtemp(prefix="extantfs-sweep-"))
    path = os.fspath(directory)
    if path.startswith("file://"):
        path = path[len("file://") :]
    if is_address(path):
        # Before the store is opened, which may need a library that is not there.
        if client is None:
            raise ValueError(f"{path}: without a client, results go to a folder of this host")
        return Directory(path.rstrip("/"), dict(wishes.options))
    return Directory(os.path.abspath(path))


def _count(name: str, value: Optional[int], least: int, most: int) -> Optional[int]:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: a whole number, not {type(value).__name__}")
    if not least <= value <= most:
        raise ValueError(f"{name}: {value} is not from {least} to {most}")
    return value


def _shown() -> Progress:
    """Shows how far a sweep is: in a cell of a notebook, or in a line of a terminal."""
    notebook = _notebook()
    if notebook is not None:
        return notebook

    def told(done: int, total: Optional[int]) -> None:
        end = "\n" if done == total else ""
        if sys.stderr.isatty():
            sys.stderr.write(f"\rsweep: {done} of {total} jobs\x1b[K{end}")
        elif end:
            sys.stderr.write(f"sweep: {done} of {total} jobs\n")
        sys.stderr.flush()

    return told


def _notebook() -> Optional[Progress]:
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython import display

    bar: Any = display.ProgressBar
    bars: list[Any] = []

    def told(done: int, total: Optional[int]) -> None:
        if not bars:
            bars.append(bar(total))
            bars[0].display()
        bars[0].progress = done

    return told


