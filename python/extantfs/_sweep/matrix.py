"""A matrix becomes jobs: by `extant sweep plan`, which reads TOML."""

from __future__ import annotations

import json
import numbers
import os
import re
import tempfile
from typing import Any, Callable, Iterable, Mapping, Optional, Union

from . import store
from .command import called
from .errors import said_by
from .jobs import SweepJob, job_of

__all__ = ["Matrix", "planned"]

Matrix = Union[str, "os.PathLike[str]", Mapping[str, Any], Iterable[Union[str, bytes]]]

# What errors call a matrix, or a plan, that is no file.
_NAME = "matrix"
# A quoted word of TOML that is an address.
_ADDRESS = re.compile(r"""(["'])([a-zA-Z][a-zA-Z0-9+.-]*(?:::|://)[^"'\n]*)\1""")


def planned(
    matrix: Matrix, limit: int, cache: str, options: Mapping[str, Any]
) -> tuple[SweepJob, ...]:
    """The jobs of a matrix: of a TOML file, of a dict of the same shape, or of a plan: a file of
    `extant sweep plan`, or its lines.

    Images whose addresses begin with a protocol of fsspec are fetched into `cache` first.

    Raises ValueError with file and line for what the command does not take, OSError for files.
    """
    if isinstance(matrix, Mapping):
        return _planned_text(_NAME, dumped(matrix), limit, cache, options)
    if isinstance(matrix, (str, os.PathLike)):
        path = os.fspath(matrix)
        with open(path, "rb") as file:
            content = file.read()
        if content.lstrip().startswith(b"{"):
            return _lines(path, content.splitlines())
        text = content.decode("utf-8", "replace")
        if _ADDRESS.search(text) is None:
            return _planned_file(path, limit)
        return _planned_text(path, text, limit, cache, options)
    if isinstance(matrix, (bytes, bytearray)) or not isinstance(matrix, Iterable):
        raise TypeError(f"matrix: a path, a dict or lines, not {type(matrix).__name__}")
    return _lines(_NAME, matrix)


def _planned_text(
    name: str, text: str, limit: int, cache: str, options: Mapping[str, Any]
) -> tuple[SweepJob, ...]:
    inputs = store.Inputs(cache, dict(options))

    def local(found: "re.Match[str]") -> str:
        before = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        if before.lstrip().startswith("#"):
            return found.group(0)
        return quoted(inputs.fetched(found.group(2)))

    filled = _ADDRESS.sub(local, text)
    with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8") as file:
        file.write(filled)
        file.flush()
        return _planned_file(file.name, limit, lambda words: words.replace(file.name, name))


def _planned_file(
    path: str, limit: int, shown: Callable[[str], str] = lambda words: words
) -> tuple[SweepJob, ...]:
    # A name that begins with a hyphen is no option.
    words = ["sweep", "plan", "--json", "--limit", str(limit), "--", path]
    code, printed, log = called(words)
    if code != 0:
        error = said_by(printed, log, code)
        if isinstance(error, ValueError):
            raise ValueError(shown(str(error)))
        raise error
    return _lines(path, printed.splitlines())


def _lines(name: str, lines: Iterable[Union[str, bytes]]) -> tuple[SweepJob, ...]:
    jobs: dict[str, SweepJob] = {}
    number = 0
    for line in lines:
        number += 1
        if not isinstance(line, (str, bytes)):
            raise TypeError(f"{name}:{number}: a line of a plan, not {type(line).__name__}")
        text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
        job = job_of(name, number, text.rstrip("\r\n"))
        if job.id in jobs:
            raise ValueError(f"{name}:{number}: the same job is in a line before")
        jobs[job.id] = job
    if not jobs:
        raise ValueError(f"{name}: has no job")
    return tuple(jobs.values())


def dumped(matrix: Mapping[str, Any]) -> str:
    """A matrix as TOML: a line for each key at the top, a block for each of `jobs`, in the order of
    the dict, which says how axes turn.

    Raises TypeError or ValueError, with the place, for what TOML has no form for.
    """
    top = [f"{_key(key)} = {_value(key, value)}" for key, value in matrix.items() if key != "jobs"]
    blocks = matrix.get("jobs", ())
    if isinstance(blocks, Mapping):
        blocks = [blocks]
    for at, block in enumerate(blocks):
        if not isinstance(block, Mapping):
            raise TypeError(f"jobs[{at}]: a dict, not {type(block).__name__}")
        top.append("[[jobs]]")
        where = f"jobs[{at}]"
        top.extend(f"{_key(key)} = {_value(f'{where}.{key}', one)}" for key, one in block.items())
    return "\n".join(top) + "\n"


def _value(where: str, value: Any) -> str:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, numbers.Integral):
        if not -(2**63) <= int(value) < 2**63:
            raise ValueError(f"{where}: {value} is beyond 64 bits")
        return str(int(value))
    if isinstance(value, numbers.Real):
        # Python's repr of a number is TOML's, also of inf and nan.
        return repr(float(value))
    if isinstance(value, Mapping):
        members = (f"{_key(key)} = {_value(f'{where}.{key}', one)}" for key, one in value.items())
        return "{ " + ", ".join(members) + " }"
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray)):
        return "[" + ", ".join(_value(f"{where}[{at}]", one) for at, one in enumerate(value)) + "]"
    raise TypeError(f"{where}: a matrix has no value that is a {type(value).__name__}")


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"{key!r}: a key of a matrix is a str")
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else quoted(key)


def quoted(text: str) -> str:
    """A basic string of TOML. JSON escapes the same, but for DEL and for letters beyond 16 bits,
    which are left as they are."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{text!r}: is not UTF-8, and a matrix is") from None
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def bytes_of(name: str, memory: Union[int, str, None]) -> Optional[int]:
    """Memory in bytes, of a number or of words such as 512M or 2G, as the command takes them."""
    if memory is None:
        return None
    if isinstance(memory, bool) or not isinstance(memory, (int, str)):
        raise TypeError(f"{name}: bytes or words such as 2G, not {type(memory).__name__}")
    if isinstance(memory, str):
        found = re.fullmatch(r"([0-9]+)(?:([KMGT])(?:iB)?)?", memory)
        if found is None:
            raise ValueError(f"{name}: {memory}: has to be memory such as 512M or 2G")
        memory = int(found[1]) << {None: 0, "K": 10, "M": 20, "G": 30, "T": 40}[found[2]]
    if memory < 1 << 20:
        raise ValueError(f"{name}: {memory}: no job fits in less than 1M")
    return memory
