"""A sweep on a Dask cluster, as the client sees it: batches of jobs, as many at a time as keep the
workers busy.

    waiting --> in a batch --> done, or there already
       ^            |
       |            +--> failed: the worker has tried it as often as it may
       +-- alone ---+    its Dask worker was lost, with all others that tried the batch

    alone --> suspect: lost again --> failed: lost when no other job of the sweep was at work

A Dask worker runs several jobs, and one that ends it takes the others with it, so a job is blamed
only for what happened while it was the only one: suspects run one by one, after all others.
A batch is as large as it has to be for a task to take at least 100 ms (on more than 25 threads,
4 ms for each of them), by what jobs of its kind took so far, and not much larger, so that workers
end together. Results do not go through the scheduler: workers write them into the directory.

*Invariants*: a job is in one of these states; a result that is written is never taken back, so a
job that two workers ran has one. *Locking*: none but the sweep's; one thread.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import fcntl
import hashlib
import math
import os
import queue
import time
import uuid
from typing import IO, TYPE_CHECKING, Any, Callable, Iterator, Optional

from .._errors import SweepError
from . import batch
from .batch import Answer, Batch, Sent
from .errors import error_of
from .jobs import SweepFailure, SweepJob, failure_name
from .process import Limits
from .store import Directory, host

if TYPE_CHECKING:
    from .sweep import Sweep

__all__ = ["prepared"]

# A task takes these seconds, and on a large cluster these for each of its threads: the scheduler
# takes some milliseconds for a task, whoever runs it.
_BATCH_SECONDS_LEAST, _BATCH_SECONDS_MOST = 0.1, 0.5
_THREAD_SECONDS_LEAST, _THREAD_SECONDS_MOST = 0.004, 0.02
_BATCH_JOBS_MAX = 1000
_BATCH_BYTES_MAX = 4 << 20
# Batches for each thread of the cluster: one runs, and others wait where it is.
_BATCHES_A_THREAD = 3
# How often the cluster is asked how large it is, in seconds.
_ASK_SECONDS = 5.0
_LOOK_SECONDS = 0.1
# What a batch gave is small, and there.
_RESULT_SECONDS = 2.0
_NAMES = ["plans", "results", "failed", "out", "lock", "locks"]

# What a worker is asked first. It goes there as a text, since the package may not be there.
_PROBE = """
def probe():
    try:
        import extantfs
        from extantfs._sweep import batch
        return extantfs.__version__
    except Exception as error:
        return error
"""


def prepared(sweep: "Sweep", client: Any) -> Callable[["Sweep"], Optional[bytes]]:
    """What runs the jobs of a sweep on the cluster of a client.

    Raises what can be said before a job begins: the workers do not have the package, or another
    version of it; another run is at work in the directory; a job writes where no store is.
    """
    if not hasattr(client, "submit") or not hasattr(client, "nthreads"):
        raise TypeError(f"client: a distributed.Client, not {type(client).__name__}")
    if getattr(client, "asynchronous", False):
        raise ValueError("client: an asynchronous one cannot be waited for: make one that is not")
    store = sweep._store
    if not store.is_local:
        for job in sweep.jobs:
            if any("target" in one for one in job.details.get("outputs", ())):
                raise ValueError(
                    f"{job.label}: has a target, which is a path of one machine: leave it out, and "
                    f"the file goes into {store.address}"
                )
    _probed(sweep, client)
    held = contextlib.ExitStack()
    try:
        if store.is_local:
            held.enter_context(_lock(store))
        plan = _kept_plan(store, sweep.jobs)
    except BaseException:
        held.close()
        raise
    sent = Sent(
        token=uuid.uuid4().hex,
        version=sweep.jobs[0].details["version"],
        directory=store.address,
        plan=plan,
        cwd=os.getcwd(),
        cache=sweep._wishes.cache,
        program=sweep._wishes.program,
        epoch=sweep.jobs[0].details.get("epoch"),
        limits=Limits(sweep._wishes.memory_bytes, sweep._wishes.seconds),
        retries=sweep._wishes.retries,
        options=dict(sweep._wishes.options),
    )

    def drive(sweep: "Sweep") -> None:
        with held:
            _Driver(sweep, client, sent).run()

    return drive


def _probed(sweep: "Sweep", client: Any) -> None:
    """Asks the workers that there are for their versions."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(_PROBE, names)
    found: dict[str, Any] = client.run(names["probe"], on_error="return")
    version = sweep.jobs[0].details["version"]
    for worker, said in found.items():
        if isinstance(said, ImportError):
            raise SweepError(
                f"worker {worker}: has no extantfs ({said}): pip install extantfs=={version} there"
            )
        if isinstance(said, str) and said != version:
            raise SweepError(f"worker {worker}: is extantfs {said}, and the jobs are of {version}")


@contextlib.contextmanager
def _lock(store: Directory) -> Iterator[None]:
    """Holds the directory, as a run of the command does."""
    path = store.address
    if not os.path.isdir(os.path.join(path, "plans")) and os.path.isdir(path):
        foreign = sorted(set(os.listdir(path)) - set(_NAMES))
        if foreign:
            raise error_of(
                f"{path}: holds {foreign[0]}, which no sweep has", "name a new directory"
            )
    for name in ["plans", "results", "failed", "locks"]:
        os.makedirs(os.path.join(path, name), exist_ok=True)
    with open(os.path.join(path, "lock"), "a+", encoding="utf-8") as file:
        if not _locked(file):
            file.seek(0)
            who = file.read(200).strip()
            raise error_of(
                f"{path}: {f'a run ({who})' if who else 'a run of a part'} is at work in it",
                "wait for it",
            )
        file.truncate(0)
        file.write(f"process {os.getpid()} on {host()}\n")
        file.flush()
        yield


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # A store without locks: two runs do the same work, and no harm.
        pass
    return True


def _kept_plan(store: Directory, jobs: "tuple[SweepJob, ...]") -> str:
    """Writes the plan under the name that the command gives it."""
    content = "".join(f"{job.line}\n" for job in jobs).encode()
    name = f"plans/{hashlib.sha256(content).hexdigest()}.jsonl"
    store.write(name, content)
    return name


@dataclasses.dataclass
class _Pace:
    """How long jobs of a kind take: a mean that forgets."""

    seconds: float = 0.0
    jobs: int = 0

    def note(self, seconds: float) -> None:
        self.jobs += 1
        weight = max(1 / self.jobs, 0.02)
        self.seconds += (seconds - self.seconds) * weight

    def size(self, left: int, threads: int) -> int:
        """How many jobs a batch has, of so many that are left."""
        if self.jobs == 0:
            return 1
        one = max(self.seconds, 1e-5)
        least = math.ceil(max(_BATCH_SECONDS_LEAST, threads * _THREAD_SECONDS_LEAST) / one)
        most = math.ceil(max(_BATCH_SECONDS_MOST, threads * _THREAD_SECONDS_MOST) / one)
        fair = math.ceil(left / (_BATCHES_A_THREAD * threads))
        return min(_BATCH_JOBS_MAX, max(least, min(most, fair)))


class _Driver:
    """The thread that gives out batches."""

    def __init__(self, sweep: "Sweep", client: Any, sent: Sent) -> None:
        self._sweep = sweep
        self._client = client
        self._sent = sent
        self._waiting: "collections.deque[SweepJob]" = collections.deque()
        # Jobs whose batch was lost with its workers.
        self._alone: "collections.deque[SweepJob]" = collections.deque()
        # Jobs that were lost alone, but beside others of the sweep.
        self._suspects: "collections.deque[SweepJob]" = collections.deque()
        self._is_by_itself = False
        self._lost: "collections.Counter[str]" = collections.Counter()
        self._flying: dict[str, "tuple[Any, list[SweepJob]]"] = {}
        self._over: "queue.SimpleQueue[str]" = queue.SimpleQueue()
        self._paces: dict[str, _Pace] = collections.defaultdict(_Pace)
        self._number = 0
        self._threads = 1
        self._resources: dict[str, str] = {}
        self._asked = -math.inf
        self._failures: set[str] = set()

    def run(self) -> None:
        """Runs the jobs.

        Raises SweepError and OSError for what ends the sweep.
        """
        try:
            self._skip_those_there()
            while not self._sweep.is_cancelled:
                self._ask()
                self._fill()
                if not self._flying:
                    break
                self._take()
        finally:
            self._end()

    def _skip_those_there(self) -> None:
        store = self._sweep._store
        there, self._failures = store.ids("results"), store.ids("failed")
        self._there = there
        for job in self._sweep.jobs:
            # In a folder, the worker looks at the files that a result names too.
            if job.id in there and not store.is_local:
                self._arrived(job.id)
            else:
                self._waiting.append(job)

    def _arrived(self, identity: str) -> None:
        if identity in self._failures:
            self._failures.discard(identity)
            self._sweep._store.remove(failure_name(identity))
        self._sweep._arrived(identity, was_there=identity in self._there)

    def _ask(self) -> None:
        """How many threads the cluster has, and which resources its workers declare."""
        now = time.monotonic()
        if now - self._asked < _ASK_SECONDS:
            return
        self._asked = now
        try:
            threads = self._client.nthreads()
            self._threads = max(1, sum(threads.values()))
            if self._sweep._wishes.resources is None:
                self._resources = _declared(self._client)
        except Exception as error:
            raise self._gone(error) from error

    def _gone(self, error: BaseException) -> SweepError:
        return SweepError(f"the scheduler does not answer: {error}; what is done is kept")

    def _fill(self) -> None:
        while len(self._flying) < _BATCHES_A_THREAD * self._threads:
            jobs = self._batch()
            if not jobs:
                break
            self._is_by_itself = False
            self._submit(jobs)
        if not self._flying and self._suspects:
            self._is_by_itself = True
            self._submit([self._suspects.popleft()])

    def _batch(self) -> "list[SweepJob]":
        """The next jobs: of one kind and one limit of memory."""
        if self._alone:
            return [self._alone.popleft()]
        if not self._waiting:
            return []
        jobs = [self._waiting.popleft()]
        first = jobs[0]
        size = self._paces[first.kind].size(len(self._waiting) + 1, self._threads)
        length = len(first.line)
        while self._waiting and len(jobs) < size and length < _BATCH_BYTES_MAX:
            job = self._waiting[0]
            if (job.kind, job.memory_bytes) != (first.kind, first.memory_bytes):
                break
            length += len(job.line)
            jobs.append(self._waiting.popleft())
        return jobs

    def _submit(self, jobs: "list[SweepJob]") -> None:
        self._number += 1
        kind = jobs[0].kind.replace(" ", "-")
        key = f"extant-{kind}-{self._sent.token}-{self._number}"
        try:
            future = self._client.submit(
                batch.run,
                self._sent,
                jobs,
                key=key,
                pure=False,
                retries=self._sent.retries,
                resources=self._taken_by(jobs[0]) or None,
            )
        except Exception as error:
            raise self._gone(error) from error
        self._watch(future, jobs)

    def _taken_by(self, job: SweepJob) -> dict[str, float]:
        asked = self._sweep._wishes.resources
        if asked is not None:
            return dict(asked)
        memory = self._sent.limits.memory_bytes if job.memory_bytes is None else job.memory_bytes
        amounts = {"memory": memory, "processor": 1}
        return {
            name: float(amount)
            for sense, name in self._resources.items()
            if (amount := amounts[sense]) is not None
        }

    def _take(self) -> None:
        """Waits for a batch that is over, for a moment."""
        try:
            key = self._over.get(timeout=_LOOK_SECONDS)
        except queue.Empty:
            if getattr(self._client, "status", "running") == "closed":
                raise self._gone(SweepError("the client is closed")) from None
            return
        found = self._flying.pop(key, None)
        if found is None:
            return
        future, jobs = found
        if future.status == "cancelled":
            # The connection to the scheduler was lost, and made again.
            self._again(jobs, None)
        elif future.status not in ("finished", "error"):
            # Its worker has ended, and with it what the batch gave: it is run again.
            self._watch(future, jobs)
        else:
            self._answered(future, jobs)

    def _watch(self, future: Any, jobs: "list[SweepJob]") -> None:
        self._flying[future.key] = (future, jobs)
        future.add_done_callback(lambda done: self._over.put(done.key))

    def _answered(self, future: Any, jobs: "list[SweepJob]") -> None:
        try:
            done: Batch = future.result(timeout=_RESULT_SECONDS)
        except (Exception, asyncio.CancelledError) as error:
            name = type(error).__name__
            if name in ("KilledWorker", "CommClosedError"):
                self._again(jobs, error)
            elif "Cancelled" in name:
                self._again(jobs, None)
            elif name == "TimeoutError" and future.status != "error":
                # The same, after it was said to be over.
                self._watch(future, jobs)
            else:
                raise _said(error) from error
        else:
            self._note(done, jobs)

    def _again(self, jobs: "list[SweepJob]", error: Optional[BaseException]) -> None:
        """A batch has no answer: each of its jobs is tried alone."""
        for job in jobs:
            if error is not None and len(jobs) == 1:
                self._lost[job.id] += 1
                tries = self._lost[job.id]
                if self._is_by_itself and tries > self._sent.retries:
                    self._gave_up(job, Answer(job.id, "failed", 0.0, tries, str(error)))
                else:
                    self._suspects.append(job)
            else:
                self._alone.append(job)

    def _note(self, done: Batch, jobs: "list[SweepJob]") -> None:
        by_id = {job.id: job for job in jobs}
        for answer in done.answers:
            job = by_id[answer.id]
            if answer.state in ("done", "there"):
                if answer.state == "done":
                    self._paces[job.kind].note(answer.seconds)
                self._arrived(answer.id)
                del by_id[answer.id]
            elif answer.state == "failed":
                self._gave_up(job, answer)
                del by_id[answer.id]
        if done.broken is not None:
            is_directory = done.is_directory
            raise error_of(done.broken, done.hint) if is_directory else SweepError(done.broken)
        if not self._sweep.is_cancelled:
            self._alone.extend(by_id.values())

    def _gave_up(self, job: SweepJob, answer: Answer) -> None:
        failure = SweepFailure(
            id=job.id,
            words=job.words,
            label=job.label,
            reason=answer.reason,
            exit=answer.exit,
            tries=answer.tries,
            said=answer.said,
        )
        self._sweep._store.write(failure_name(job.id), failure.json)
        self._failures.add(job.id)
        self._sweep._gave_up(failure)

    def _end(self) -> None:
        """Nothing of the sweep goes on, here or on the workers. Who cannot be reached has ended."""
        with contextlib.suppress(Exception):
            self._client.cancel([future for future, _ in self._flying.values()])
        with contextlib.suppress(Exception):
            self._client.run(batch.ended, self._sent.token, on_error="ignore")
        self._flying.clear()


def _said(error: BaseException) -> BaseException:
    """What ended a batch, as an error of the sweep."""
    if isinstance(error, ImportError):
        return SweepError(f"a worker does not have what the sweep needs: {error}")
    if isinstance(error, (OSError, SweepError)):
        return error
    return SweepError(f"a batch failed: {type(error).__name__}: {error}")


def _declared(client: Any) -> dict[str, str]:
    """The names that all workers give their memory and processors among their resources."""
    try:
        info = client.scheduler_info(n_workers=-1)
    except TypeError:
        info = client.scheduler_info()
    declared = [set(one.get("resources", ())) for one in info["workers"].values()]
    found: dict[str, str] = {}
    for name in set.intersection(*declared) if declared else set():
        if name.lower() in ("memory", "mem"):
            found["memory"] = name
        elif name.lower() in ("processor", "processors", "cpu", "cpus", "cores"):
            found["processor"] = name
    return found
