"""What goes into a sweep and what comes out of it: values that do not change."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Optional, Tuple

from .._native import __version__

__all__ = ["SweepFailure", "SweepJob", "SweepResult"]

JOB_SCHEMA = "extant-sweep-job/1"
RESULT_SCHEMA = "extant-sweep-result/1"
FAILURE_SCHEMA = "extant-sweep-failure/1"


@dataclasses.dataclass(frozen=True)
class SweepJob:
    """A job, as it was planned."""

    id: str
    """The SHA-256 of all that decides its result."""
    kind: str
    """A kind of docs/FLEETS.md, such as `lab run`."""
    words: Tuple[str, ...]
    """Its command line, without the program's name."""
    parameters: dict[str, Any] = dataclasses.field(hash=False)
    """The values of the matrix."""
    line: str = dataclasses.field(repr=False)
    """It as a line of JSON, to the byte, without its end."""
    memory_bytes: Optional[int] = None
    """What it may hold in memory, where its matrix says so."""
    seconds: Optional[int] = None
    """How long it may take, where its matrix says so."""

    @property
    def label(self) -> str:
        """What people call it: its kind and parameters, and the beginning of its id."""
        words = [self.kind]
        for key in sorted(self.parameters):
            value = self.parameters[key]
            shown = value if isinstance(value, str) else written(value)
            words.append(f"{key}={shown}")
        return f"{' '.join(words)} ({self.id[:12]})"

    @property
    def details(self) -> dict[str, Any]:
        """All members of its line."""
        found: dict[str, Any] = json.loads(self.line)
        return found


@dataclasses.dataclass(frozen=True)
class SweepResult:
    """What a job gave."""

    id: str
    kind: str
    words: Tuple[str, ...]
    parameters: dict[str, Any] = dataclasses.field(hash=False)
    exit: int
    """The exit code of its command: problems of a check are a result too."""
    said: Tuple[str, ...]
    """What it wrote to standard error."""
    document: dict[str, Any] = dataclasses.field(repr=False, hash=False)
    """What it prints with `--json`."""
    rows: Tuple[dict[str, Any], ...] = dataclasses.field(repr=False, hash=False)
    """The observations of a simulation; of other jobs there are none."""
    outputs: Tuple[dict[str, Any], ...] = dataclasses.field(repr=False, hash=False)
    """The files that it wrote: `option`, `path`, `bytes`, `sha256`."""
    json: bytes = dataclasses.field(repr=False)
    """Its file, to the byte."""


@dataclasses.dataclass(frozen=True)
class SweepFailure:
    """Why a job has no result."""

    id: str
    words: Tuple[str, ...]
    label: str
    """What people call it."""
    reason: str
    """In one line."""
    exit: Optional[int]
    """The exit code, if the command ended by itself."""
    tries: int
    """How often it was tried."""
    said: Tuple[str, ...]
    """The last lines that it wrote to standard error."""

    @property
    def json(self) -> bytes:
        """Its file in the directory, to the byte."""
        members = {
            "schema": FAILURE_SCHEMA,
            "id": self.id,
            "label": self.label,
            "reason": self.reason,
            "exit": self.exit,
            "tries": self.tries,
            "said": list(self.said),
        }
        return written(members).encode()


def written(value: Any) -> str:
    """JSON as the command writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def job_of(name: str, number: int, line: str) -> SweepJob:
    """The job of a line of a plan.

    Raises ValueError, with the plan and the number of the line, for one that is no job, or one of
    another version.
    """
    try:
        members = json.loads(line)
        schema, version = members["schema"], members["version"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"{name}:{number}: is no job: a job is a line of `extant sweep plan`"
        ) from None
    if schema != JOB_SCHEMA or version != __version__:
        raise ValueError(
            f"{name}:{number}: is a job of extant {version} ({schema}), and this is "
            f"{__version__} ({JOB_SCHEMA}); plan it again with this version, or run it with the "
            "other one"
        )
    try:
        limits = members.get("limits", {})
        return SweepJob(
            id=_identity(members["id"]),
            kind=str(members["kind"]),
            words=tuple(map(str, members["words"])),
            parameters=dict(members["parameters"]),
            line=line,
            memory_bytes=limits.get("memory_bytes"),
            seconds=limits.get("seconds"),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{name}:{number}: is no whole job: {error}") from None


def _identity(word: Any) -> str:
    """It becomes the name of a file."""
    if not isinstance(word, str) or len(word) != 64 or set(word) - set("0123456789abcdef"):
        raise ValueError(f"{word!r} is no id")
    return word


def result_of(name: str, job: SweepJob, text: bytes) -> SweepResult:
    """The result of a job; `name` is its file.

    Raises ValueError for a file that is not its result.
    """
    try:
        members = json.loads(text)
        if members["schema"] != RESULT_SCHEMA or members["id"] != job.id:
            raise KeyError("id")
        return SweepResult(
            id=job.id,
            kind=members["kind"],
            words=tuple(members["words"]),
            parameters=members["parameters"],
            exit=members["exit"],
            said=tuple(members["said"]),
            document=members["document"],
            rows=tuple(members.get("rows", ())),
            outputs=tuple(members["outputs"]),
            json=text,
        )
    except (ValueError, KeyError, TypeError):
        reason = "is no result of this job; the same sweep makes it again"
        raise ValueError(f"{name}: {reason}") from None


def failure_of(job: SweepJob, text: bytes) -> Optional[SweepFailure]:
    """The failure of a job; None for a file that is none."""
    try:
        members = json.loads(text)
        return SweepFailure(
            id=job.id,
            words=job.words,
            label=members["label"],
            reason=members["reason"],
            exit=members["exit"],
            tries=members["tries"],
            said=tuple(members["said"]),
        )
    except (ValueError, KeyError, TypeError):
        return None


def result_name(identity: str) -> str:
    """Where the result of a job is, from the directory."""
    return f"results/{identity[:2]}/{identity}.json"


def failure_name(identity: str) -> str:
    """Where the failure of a job is, from the directory."""
    return f"failed/{identity}.json"
