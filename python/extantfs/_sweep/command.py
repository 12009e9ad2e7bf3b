"""The command `extant`, as a process that ends with the thread that started it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import IO, Optional, Sequence, Tuple

from .._errors import SweepError

__all__ = ["begun", "called", "words_of"]

# The process finds the package where this one has found it.
_SCRIPT = """
import sys
sys.path[:] = {path!r}
from extantfs._command import main
main()
"""
# The same, and Linux ends it (SIGTERM is 15, PR_SET_PDEATHSIG is 1) with the thread that started
# it, in whatever way that ends.
_BOUND = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 15, 0, 0, 0)
if os.getppid() != {starter}:
    sys.exit("the process that started this one has ended")
"""


def words_of(program: Optional[str] = None) -> list[str]:
    """What starts the command: that of the package, unless a program is named."""
    if program is not None:
        return [program]
    return [sys.executable, "-c", _SCRIPT.format(path=list(sys.path))]


def begun(words: Sequence[str], out: IO[bytes], log: IO[bytes]) -> "subprocess.Popen[bytes]":
    """The command, started with these words; its outputs go to two files."""
    script = _BOUND.format(starter=os.getpid()) + _SCRIPT.format(path=list(sys.path))
    called = [sys.executable, "-c", script, *words]
    try:
        return subprocess.Popen(called, stdin=subprocess.DEVNULL, stdout=out, stderr=log)
    except OSError as error:
        raise SweepError(f"the command cannot be started: {error}") from error


def called(words: Sequence[str]) -> Tuple[int, bytes, bytes]:
    """Runs the command to its end: its exit code, and what it wrote to standard output and to
    standard error. Ctrl-C ends it."""
    done = subprocess.run([*words_of(), *words], stdin=subprocess.DEVNULL, capture_output=True)
    return done.returncode, done.stdout, done.stderr
