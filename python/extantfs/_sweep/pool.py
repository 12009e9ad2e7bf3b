"""A sweep on this machine: `extant sweep run`, looked at from outside.

Results are found where it writes them: a folder is read again when it has changed.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from typing import IO, TYPE_CHECKING, Callable, Optional

from .command import begun
from .errors import said_by
from .jobs import failure_name, failure_of, written
from .store import Directory

if TYPE_CHECKING:
    from .sweep import Sweep

__all__ = ["prepared", "report"]

_LOOK_SECONDS = 0.05
_LOOK_SECONDS_MAX = 1.0
_END_SECONDS = 10.0
# As many as the command tells of.
_FAILURES_TOLD_MAX = 100


def prepared(sweep: "Sweep") -> Callable[["Sweep"], Optional[bytes]]:
    """What runs the jobs of a sweep."""
    return _drive


def _drive(sweep: "Sweep") -> Optional[bytes]:
    wishes = sweep._wishes
    words = ["sweep", "run", "--json", "--retries", str(wishes.retries)]
    options = [
        ("--workers", wishes.workers),
        ("--memory", wishes.memory_bytes),
        ("--time", wishes.seconds),
        ("--program", wishes.program),
    ]
    for option, value in options:
        if value is not None:
            words += [option, str(value)]
    before = sweep._store.ids("results")
    with (
        tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as plan,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as log,
    ):
        plan.writelines(f"{job.line}\n" for job in sweep.jobs)
        plan.flush()
        child = begun([*words, "--", plan.name, sweep.directory], out, log)
        looking = _Results(sweep, before)
        try:
            _watch(sweep, child, looking)
        finally:
            _end(child)
        looking.look(everywhere=True)
        _failures(sweep)
        if sweep.is_cancelled:
            return None
        printed, said = _content(out), _content(log)
    if not printed.startswith(b'{"schema":"extant-sweep-run/'):
        raise said_by(printed, said, child.returncode)
    return printed


def _watch(sweep: "Sweep", child: "subprocess.Popen[bytes]", looking: "_Results") -> None:
    seconds = _LOOK_SECONDS
    while not sweep.is_cancelled:
        try:
            child.wait(seconds)
            return
        except subprocess.TimeoutExpired:
            found = looking.look()
        # What is quiet is looked at less often.
        seconds = _LOOK_SECONDS if found else min(_LOOK_SECONDS_MAX, seconds * 1.5)


def _end(child: "subprocess.Popen[bytes]") -> None:
    """Its workers end with it."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


class _Results:
    """The folders of results, as they were when they were last read."""

    def __init__(self, sweep: "Sweep", before: set[str]) -> None:
        self._sweep = sweep
        self._before = before
        self._changed_ns: dict[str, int] = {}
        self._buckets = sorted({job.id[:2] for job in sweep.jobs})

    def look(self, *, everywhere: bool = False) -> int:
        """Says what has come; how many."""
        found = 0
        for bucket in self._buckets:
            folder = self._sweep._store.path(f"results/{bucket}")
            try:
                changed_ns = os.stat(folder).st_mtime_ns
                if not everywhere and self._changed_ns.get(bucket) == changed_ns:
                    continue
                names = os.listdir(folder)
            except FileNotFoundError:
                continue
            self._changed_ns[bucket] = changed_ns
            for name in names:
                identity = name[:-5]
                if name[0] != "." and identity not in self._sweep._known:
                    self._sweep._arrived(identity, was_there=identity in self._before)
                    found += 1
        return found


def _failures(sweep: "Sweep") -> None:
    """Says which jobs were given up."""
    directory: Directory = sweep._store
    for identity in directory.ids("failed") - sweep._known:
        job = sweep._by_id.get(identity)
        if job is not None:
            failure = failure_of(job, directory.read(failure_name(identity)))
            if failure is not None:
                sweep._gave_up(failure)


def report(sweep: "Sweep") -> bytes:
    """What the command prints with `--json`, of what there is."""
    failures = [json.loads(failure.json) for failure in sweep.failed[:_FAILURES_TOLD_MAX]]
    for failure in failures:
        del failure["schema"]
    members = {
        "schema": "extant-sweep-run/1",
        "directory": sweep.directory,
        "jobs": len(sweep.jobs),
        "done": sweep.done - sweep.there,
        "there": sweep.there,
        "failed": len(sweep.failed),
        "failures": failures,
    }
    return f"{written(members)}\n".encode()
