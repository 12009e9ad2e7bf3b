"""One `extant sweep worker`: a process that has one job at a time, and is killed when that passes a
limit.

    <- {"schema":"extant-sweep-worker/1","version":"0.1.0"}
    -> a job, a line
    <- {"id":"4f..","state":"done"}   or there, failed, broken

A limit of memory is on what the process has held at its peak in the job (`VmHWM`), looked at every
15 ms, as `extant sweep run` does; the process itself has Linux refuse what grows to twice the limit
between two looks.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import select
import subprocess
import time
from typing import Any, Callable, Optional, Sequence

from .._errors import SweepError

__all__ = ["Ended", "Limits", "Process"]

_HELLO_SCHEMA = "extant-sweep-worker/1"
_READY_SECONDS = 120.0
_LOOK_SECONDS = 0.015
_LINE_BYTES_MAX = 1 << 20
_TAIL_BYTES = 16 << 10
_TAIL_LINES = 20


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a job may use."""

    memory_bytes: Optional[int]
    seconds: Optional[int]


class Ended(Exception):
    """The process ended, or was killed, in the middle of a job."""

    def __init__(self, reason: str, said: Sequence[str]) -> None:
        super().__init__(reason)
        self.reason = reason
        self.said = tuple(said)


class Process:
    """A worker process. It is used by one thread at a time."""

    def __init__(
        self,
        words: Sequence[str],
        directory: str,
        version: str,
        *,
        cwd: Optional[str] = None,
        env: Optional[dict[str, str]] = None,
    ) -> None:
        """Starts it, and waits until it says that it is ready.

        Raises SweepError if it is no worker, or one of another version, and Ended if somebody
        ended it meanwhile.
        """
        self._program = words[0] if len(words) == 1 else "of the package"
        self._line = bytearray()
        # Emptied between jobs: the next line goes to the beginning then.
        self._log = os.fdopen(os.memfd_create("worker"), "r+b", buffering=0)
        flags = fcntl.fcntl(self._log, fcntl.F_GETFL)
        fcntl.fcntl(self._log, fcntl.F_SETFL, flags | os.O_APPEND)
        called = [*words, "sweep", "worker", "--of", str(os.getpid()), "--", directory]
        try:
            self._child = subprocess.Popen(
                called,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                cwd=cwd,
                env=env,
                bufsize=0,
            )
        except OSError as error:
            self._log.close()
            raise self._error(f"cannot be run as a worker: {error.strerror}") from error
        self._poll = select.poll()
        self._poll.register(self._answers, select.POLLIN)
        try:
            self._greet(version)
        except BaseException:
            self.dismiss()
            raise

    @property
    def number(self) -> int:
        """Its number."""
        return self._child.pid

    @property
    def is_running(self) -> bool:
        """Whether it can be given a job."""
        return self._child.poll() is None

    @property
    def _answers(self) -> int:
        assert self._child.stdout is not None
        return self._child.stdout.fileno()

    def _greet(self, version: str) -> None:
        until = time.monotonic() + _READY_SECONDS
        line = self._read_line(_LOOK_SECONDS)
        while line is None:
            if time.monotonic() > until:
                raise self._error("does not say that it is ready")
            line = self._read_line(_LOOK_SECONDS)
        if line == b"":
            if self._child.wait() < 0:
                raise Ended(f"its process was ended by signal {-self._child.wait()}", ())
            last = self._last_lines()
            why = f": {last[-1]}" if last else ""
            raise self._error(f"ended before it had a job ({self._status()}){why}")
        hello = _members(line)
        if hello.get("schema") is None or hello.get("version") is None:
            shown = line.decode("utf-8", "replace").strip()[:80]
            raise self._error(f"said {shown!r}: it is no extant that has `sweep worker`")
        if (hello["schema"], hello["version"]) != (_HELLO_SCHEMA, version):
            raise self._error(f"is extant {hello['version']}, and the jobs are of {version}")

    def run(
        self, line: str, identity: str, limits: Limits, is_stopped: Callable[[], bool]
    ) -> dict[str, Any]:
        """Gives it a job, and returns its answer.

        Raises Ended if it ended, passed a limit, or `is_stopped` said so: the process is gone then.
        Raises SweepError if it answers what no worker does.
        """
        began = time.monotonic()
        os.ftruncate(self._log.fileno(), 0)
        assert self._child.stdin is not None
        try:
            _write_all(self._child.stdin.fileno(), line.encode() + b"\n")
        except BrokenPipeError:
            # It has ended, which is found below.
            pass
        while True:
            said = self._read_line(_LOOK_SECONDS)
            if said:
                answer = _members(said)
                if answer.get("id") != identity or "state" not in answer:
                    shown = said.decode("utf-8", "replace").strip()[:80]
                    raise self._error(f"answered {shown!r}, which no worker does")
                return answer
            if said == b"":
                raise self._ended(limits)
            over = self._over(limits, time.monotonic() - began)
            if over is None and is_stopped():
                over = "the sweep was cancelled"
            if over is not None:
                self.kill()
                raise Ended(over, self._last_lines())

    def _over(self, limits: Limits, seconds: float) -> Optional[str]:
        """Which limit the job has passed."""
        if limits.seconds is not None and seconds >= limits.seconds:
            return f"passed its time limit of {limits.seconds} s"
        if limits.memory_bytes is not None:
            peak = _peak_bytes(self._child.pid)
            if peak > limits.memory_bytes:
                return _passed_memory(limits.memory_bytes, peak)
        return None

    def _ended(self, limits: Limits) -> Ended:
        code = self._child.wait()
        lines = self._last_lines()
        # What Rust says when the host refuses memory.
        is_memory = any(line.startswith("memory allocation of ") for line in lines)
        if code < 0 and is_memory and limits.memory_bytes is not None:
            return Ended(_passed_memory(limits.memory_bytes, limits.memory_bytes), lines)
        if code < 0:
            return Ended(f"its process was ended by signal {-code}", lines)
        return Ended(f"its process ended in the middle of it ({self._status()})", lines)

    def _status(self) -> str:
        code = self._child.wait()
        return f"exit status: {code}" if code >= 0 else f"signal: {-code}"

    def _read_line(self, seconds: float) -> Optional[bytes]:
        """The next line; None if it is not whole after a time, and nothing (b"") at the end."""
        end = self._line.find(b"\n")
        if end < 0:
            if not self._poll.poll(seconds * 1000):
                return None
            piece = os.read(self._answers, 1 << 16)
            if not piece:
                return b""
            self._line += piece
            end = self._line.find(b"\n")
        if end < 0:
            if len(self._line) > _LINE_BYTES_MAX:
                raise self._error("says a line without an end: it is no worker")
            return None
        line = bytes(self._line[: end + 1])
        del self._line[: end + 1]
        return line

    def _last_lines(self) -> list[str]:
        size = os.fstat(self._log.fileno()).st_size
        text = os.pread(self._log.fileno(), _TAIL_BYTES, max(0, size - _TAIL_BYTES))
        return text.decode("utf-8", "replace").splitlines()[-_TAIL_LINES:]

    def _error(self, words: str) -> SweepError:
        return SweepError(f"worker {self._program}: {words}")

    def kill(self) -> None:
        """Ends it at once, whatever it does."""
        self._child.kill()
        self._child.wait()

    def dismiss(self) -> None:
        """Ends it, and lets go of what it has here."""
        self.kill()
        for file in (self._child.stdin, self._child.stdout, self._log):
            if file is not None:
                file.close()


def _members(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def _peak_bytes(process: int) -> int:
    """The most that a process has held; 0 if it is gone."""
    try:
        with open(f"/proc/{process}/status", "rb") as file:
            text = file.read()
    except OSError:
        return 0
    at = text.find(b"VmHWM:")
    return 0 if at < 0 else int(text[at + 6 :].split(None, 1)[0]) * 1024


def _passed_memory(limit_bytes: int, held_bytes: int) -> str:
    limit, held = limit_bytes / (1 << 20), held_bytes / (1 << 20)
    return f"passed its memory limit of {limit:.0f} MiB (it held {held:.0f} MiB)"


def limited(line: str, limits: Limits) -> str:
    """The line of a job with these limits in it, which its id does not depend on."""
    members = json.loads(line)
    members["limits"] = {
        key: value for key, value in dataclasses.asdict(limits).items() if value is not None
    }
    return json.dumps(members, ensure_ascii=False, separators=(",", ":"))


