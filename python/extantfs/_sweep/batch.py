"""A batch of jobs, as a worker of a Dask cluster sees it.

A worker keeps one `extant sweep worker` for each of its threads while a sweep is at work. They are
found by the sweep's token, and are ended by `ended`, or with the Dask worker's process.

*Invariants*: a process is idle in one list or had by one thread; of a job that was killed nothing
half written stays. *Locking*: `_LOCK`, for `_HELD` and the lists of idle processes; never while a
process is started or a job runs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import tempfile
import threading
import time
from typing import Any, Optional, Sequence, Tuple

from .._errors import SweepError
from .command import words_of
from .jobs import SweepJob, result_name
from .process import Ended, Limits, Process, limited
from .store import Directory, Inputs, left_by

__all__ = ["Answer", "Batch", "Sent", "ended", "run"]

# A directory that was just made may be seen late on the other side of a network.
_SEEN_SECONDS = 30.0
# A sweep whose client is gone leaves its processes: they go when another one needs some.
_IDLE_SECONDS = 60.0
# Who is killed while it starts is started again; a host that does it always has no room.
_STARTS_MAX = 10


@dataclasses.dataclass(frozen=True)
class Sent:
    """What is the same for all batches of a sweep."""

    token: str
    version: str
    directory: str
    plan: str
    """The name of the plan in the directory."""
    cwd: str
    """Where paths of the jobs begin."""
    cache: str
    program: Optional[str]
    epoch: Optional[str]
    """SOURCE_DATE_EPOCH, as it was when the jobs were planned."""
    limits: Limits
    """Of jobs that say nothing."""
    retries: int
    options: dict[str, Any] = dataclasses.field(hash=False)
    """For fsspec."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """What became of a job: done, there, failed or stopped."""

    id: str
    state: str
    seconds: float
    tries: int = 1
    reason: str = ""
    exit: Optional[int] = None
    said: Tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Batch:
    """What became of the jobs of a batch."""

    answers: Tuple[Answer, ...]
    worker: str
    """The Dask worker's address."""
    broken: Optional[str] = None
    """Why no more can be done: for the whole sweep."""
    is_directory: bool = False
    """Whether that is what the host said of the directory."""
    hint: Optional[str] = None


class _Held:
    """The processes of a sweep on this Dask worker."""

    def __init__(self, sent: Sent) -> None:
        self.sent = sent
        self.idle: list[Process] = []
        self.is_stopped = False
        self.used = time.monotonic()
        self.directory = Directory(sent.directory, sent.options)
        self.inputs = Inputs(sent.cache, sent.options)
        self.here = sent.directory
        if not self.directory.is_local:
            self.here = tempfile.mkdtemp(prefix="extantfs-sweep-")
        self._see()

    def _see(self) -> None:
        """The directory is the one of the client."""
        until = time.monotonic() + _SEEN_SECONDS
        while not self.directory.exists(self.sent.plan):
            if time.monotonic() > until or self.is_stopped:
                raise SweepError(
                    f"{self.directory.shown(self.sent.plan)} is not there: name a directory that "
                    "all workers share, or an address that fsspec writes"
                )
            time.sleep(0.2)

    def started(self) -> Process:
        sent = self.sent
        env = {key: value for key, value in os.environ.items() if key != "SOURCE_DATE_EPOCH"}
        if sent.epoch is not None:
            env["SOURCE_DATE_EPOCH"] = sent.epoch
        cwd = sent.cwd if os.path.isdir(sent.cwd) else None
        words = words_of(sent.program)
        for _ in range(_STARTS_MAX):
            try:
                return Process(words, self.here, sent.version, cwd=cwd, env=env)
            except Ended as end:
                reason = end.reason
        raise SweepError(f"its command ends before it has a job, again and again: {reason}")

    def close(self) -> None:
        for process in self.idle:
            process.dismiss()
        self.idle.clear()
        if not self.directory.is_local:
            shutil.rmtree(self.here, ignore_errors=True)


_HELD: dict[str, _Held] = {}
_ENDED: set[str] = set()
_LOCK = threading.Lock()


def _held(sent: Sent) -> _Held:
    with _LOCK:
        held = _HELD.get(sent.token)
        old = [
            one
            for one in _HELD.values()
            if one is not held and time.monotonic() - one.used > _IDLE_SECONDS
        ]
        left = [process for one in old for process in one.idle]
        for one in old:
            one.idle = []
    for process in left:
        process.dismiss()
    if held is None:
        made = _Held(sent)
        with _LOCK:
            made.is_stopped = sent.token in _ENDED
            held = made if made.is_stopped else _HELD.setdefault(sent.token, made)
        if held is not made:
            made.close()
    return held


def ended(token: str) -> None:
    """Ends the processes of a sweep on this Dask worker, also those that have jobs."""
    with _LOCK:
        _ENDED.add(token)
        held = _HELD.pop(token, None)
        if held is not None:
            held.is_stopped = True
    if held is not None:
        held.close()


def run(sent: Sent, jobs: Sequence[SweepJob]) -> Batch:
    """Runs the jobs of a batch, one after another; what fails, fails alone."""
    answers: list[Answer] = []
    worker = _address()
    if sent.token in _ENDED:
        return Batch((), worker)
    try:
        held = _held(sent)
        for job in jobs:
            if held.is_stopped:
                break
            answers.append(_tried(held, job))
    except SweepError as error:
        reason = str(error).removeprefix("worker ")
        return Batch(tuple(answers), worker, f"worker {worker}: {reason}")
    except _Broken as error:
        return Batch(tuple(answers), worker, error.reason, True, error.hint)
    return Batch(tuple(answers), worker)


class _Broken(Exception):
    """The directory cannot be written."""

    def __init__(self, reason: str, hint: Optional[str]) -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint


def _address() -> str:
    """The Dask worker that runs this."""
    from distributed import get_worker

    try:
        return str(get_worker().address)
    except ValueError:
        return "this process"


def _tried(held: _Held, job: SweepJob) -> Answer:
    """Runs a job, and again if it failed and another try may help."""
    tries = 0
    is_fetched = False
    for path in _inputs(held, job):
        if held.inputs.missing(path):
            held.inputs.fetch(path)
            is_fetched = True
    while True:
        tries += 1
        answer, is_final = _ran(held, job, tries)
        if answer.state != "failed" or held.is_stopped:
            return answer
        if is_final and not is_fetched and "has changed since" in answer.reason:
            # The copy of an image that is here may be an older one.
            for path in _inputs(held, job):
                held.inputs.fetch(path)
            is_fetched = True
            tries = 0
        elif is_final or tries > held.sent.retries:
            return answer


def _inputs(held: _Held, job: SweepJob) -> list[str]:
    """What the job reads that comes from a store."""
    paths = (one["path"] for one in job.details.get("inputs", ()))
    return [path for path in paths if held.inputs.has(path)]


def _ran(held: _Held, job: SweepJob, tries: int) -> Tuple[Answer, bool]:
    """One try: what came of it, and whether another one would end the same."""
    process = _taken(held)
    default = held.sent.limits
    limits = Limits(
        default.memory_bytes if job.memory_bytes is None else job.memory_bytes,
        default.seconds if job.seconds is None else job.seconds,
    )
    began = time.monotonic()
    try:
        found = process.run(limited(job.line, limits), job.id, limits, lambda: held.is_stopped)
    except Ended as end:
        process.dismiss()
        for folder in (f"results/{job.id[:2]}", f"out/{job.id[:2]}"):
            left_by(os.path.join(held.here, folder), process.number)
        found = {"state": "failed", "reason": end.reason, "said": end.said}
        if os.path.exists(os.path.join(held.here, result_name(job.id))):
            # It was killed after its last step.
            found = {"state": "done"}
        elif held.is_stopped:
            found = {"state": "stopped"}
    except BaseException:
        process.dismiss()
        raise
    else:
        _given_back(held, process, bool(found.get("retires")))
    state = found["state"]
    if state == "broken":
        raise _Broken(found["reason"], found.get("hint"))
    if state in ("done", "there") and not held.directory.is_local:
        _kept(held, job)
    answer = Answer(
        id=job.id,
        state=state,
        seconds=time.monotonic() - began,
        tries=tries,
        reason=found.get("reason", ""),
        exit=found.get("exit"),
        said=tuple(found.get("said", ())),
    )
    return answer, bool(found.get("is_final"))


def _taken(held: _Held) -> Process:
    with _LOCK:
        held.used = time.monotonic()
        process = held.idle.pop() if held.idle else None
    # One that was killed from outside between two jobs.
    while process is not None and not process.is_running:
        process.dismiss()
        with _LOCK:
            process = held.idle.pop() if held.idle else None
    return process or held.started()


def _given_back(held: _Held, process: Process, retires: bool) -> None:
    with _LOCK:
        held.used = time.monotonic()
        is_kept = not retires and not held.is_stopped
        if is_kept:
            held.idle.append(process)
    if not is_kept:
        process.dismiss()


def _kept(held: _Held, job: SweepJob) -> None:
    """Brings what a job wrote here into the store: its result last."""
    name = result_name(job.id)
    here = os.path.join(held.here, name)
    folder = os.path.join(held.here, "out", job.id[:2])
    outputs = []
    with contextlib.suppress(FileNotFoundError):
        outputs = [one for one in os.listdir(folder) if one.startswith(job.id)]
    for output in outputs:
        held.directory.put(os.path.join(folder, output), f"out/{job.id[:2]}/{output}")
    held.directory.put(here, name)
    for path in [*(os.path.join(folder, output) for output in outputs), here]:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
