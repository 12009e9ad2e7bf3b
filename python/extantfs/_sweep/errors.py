"""What the command says of a failure, as an exception."""

from __future__ import annotations

import errno
import json
import os
from typing import Optional

from .._errors import InUseError, SweepError

__all__ = ["error_of", "said_by"]

# What the host says of a directory that cannot be read or written.
_HOST = [
    errno.EACCES,
    errno.EDQUOT,
    errno.EEXIST,
    errno.EIO,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOSPC,
    errno.ENOTDIR,
    errno.ENOTEMPTY,
    errno.EPERM,
    errno.EROFS,
    errno.ESTALE,
]


def error_of(message: str, hint: Optional[str] = None) -> Exception:
    """The exception for a message of the command: an OSError for what the host said, InUseError for
    a directory that another run works in, SweepError for a program that is no worker, and a
    ValueError else."""
    if message.startswith("worker ") or ": cannot be run as a worker: " in message:
        return SweepError(message)
    for code in _HOST:
        name, said, _ = message.rpartition(f": {os.strerror(code)}")
        if said and message.endswith(os.strerror(code)):
            return OSError(code, os.strerror(code), name)
    whole = message if hint is None else f"{message}; {hint}"
    if " is at work in it" in message or " are at work in it" in message:
        name, _, reason = whole.partition(": ")
        return InUseError(errno.EBUSY, reason, name)
    return ValueError(whole)


def said_by(printed: bytes, log: bytes, code: int) -> Exception:
    """The exception for a command that ended with an error, of what it wrote to standard output
    and standard error."""
    lines = [line for line in [*printed.splitlines(), *log.splitlines()] if line.strip()]
    for line in lines:
        try:
            members = json.loads(line)
            if str(members["schema"]).startswith("extant-error/"):
                return error_of(members["error"], members["hint"])
        except (ValueError, KeyError, TypeError):
            continue
    last = lines[-1].decode("utf-8", "replace").strip() if lines else "it said nothing"
    return SweepError(f"extant ended with exit code {code}: {last}")
