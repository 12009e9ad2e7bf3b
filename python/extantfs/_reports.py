"""What calls return besides files: values that do not change."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, ClassVar, Optional, Tuple, TypeVar, Union

__all__ = [
    "Built",
    "Change",
    "Copied",
    "Difference",
    "Facts",
    "Healed",
    "Layout",
    "Problem",
    "Repaired",
    "Report",
    "Taken",
]

T = TypeVar("T")


def _of(kind: type[T], fields: dict[str, Any]) -> T:
    """A value of those fields that its class has: a newer library may tell more."""
    names = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    frozen = {name: _frozen(value) for name, value in fields.items() if name in names}
    return kind(**frozen)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value


@dataclasses.dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a volume. What does not apply to its code is None."""

    code: str
    """Its name in docs/CHECK.md, such as `link-count`."""
    severity: str
    """advice, error, stopping or fatal."""
    sentence: str
    """What is wrong, for people."""
    repair: str
    """What a repair would do."""
    path: Optional[str] = None
    """The file that it is about."""
    ino: Optional[int] = None
    group: Optional[int] = None
    block: Optional[int] = None
    file_block: Optional[int] = None
    name: Optional[str] = None
    other: Optional[int] = None
    """Another inode that has to do with it."""
    found: Optional[int] = None
    expected: Optional[int] = None
    cause: Optional[int] = None
    """The problem of the report that this one follows from, by its place there."""

    def __str__(self) -> str:
        where = f" ({self.path})" if self.path else ""
        return f"{self.severity}: {self.sentence}{where} [{self.code}]"


@dataclasses.dataclass(frozen=True)
class Report:
    """What a check found."""

    exit_code: int
    """That of `e2fsck -fn`: 0, 4, 8 or 12."""
    problems: Tuple[Problem, ...]
    omitted: int
    """Problems that were found and are not kept."""
    counts: dict[str, int]
    """How many of each code."""
    inodes: int
    inodes_used: int
    directories: int
    blocks: int
    blocks_used: int
    large_trees: int = 0
    """Files whose extent tree could be smaller."""
    unindexed_directories: int = 0
    """Directories of three blocks and more that could have an index; `lost+found` apart."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong, advice apart."""
        return self.exit_code == 0

    @staticmethod
    def _parse(text: str) -> Report:
        return Report._of(json.loads(text))

    @staticmethod
    def _of(fields: dict[str, Any]) -> Report:
        problems = tuple(_of(Problem, problem) for problem in fields.pop("problems"))
        return Report(
            exit_code=fields["exit_code"],
            problems=problems,
            omitted=fields["omitted"],
            counts=fields["counts"],
            **fields["summary"],
        )


@dataclasses.dataclass(frozen=True)
class Change:
    """A problem that was mended."""

    problem: Problem
    round: int
    """The check that found it, counted from 1."""
    loss: Optional[str] = None
    """What was lost by it: bytes of a file, a name, an attribute. None if nothing."""

    def __str__(self) -> str:
        lost = f"; lost: {self.loss}" if self.loss else ""
        return f"{self.problem}{lost}"


@dataclasses.dataclass(frozen=True)
class Repaired:
    """What a repair did, or with `dry_run` would do."""

    exit_code: int
    """That of fsck: 0 where nothing was wrong, 1 where all is mended, or a damaged log of the journal
    was given up, 4 where something is left."""
    is_clean: bool
    """Whether nothing is wrong with the volume as it is to be."""
    changes: Tuple[Change, ...]
    """What is mended, in order."""
    omitted: int
    """Problems that are mended and are not in `changes`."""
    rounds: int
    """How many checks there were."""
    found: Report
    """The first check, after the journal was replayed."""
    left: Report
    """The last check: what is left."""
    blocks: int
    """Blocks that were written: 0 with `dry_run`, and where `preen` left something."""
    undo: Optional[str] = None
    """Where the bytes before are, if they are kept."""
    image: Optional[bytes] = dataclasses.field(default=None, repr=False)
    """The image, where it was given as bytes and is changed."""

    @property
    def losses(self) -> Tuple[str, ...]:
        """What is lost, in words."""
        return tuple(change.loss for change in self.changes if change.loss is not None)

    @staticmethod
    def _of(fields: dict[str, Any], undo: Optional[str], image: Optional[bytes]) -> Repaired:
        changes = tuple(
            Change(_of(Problem, change["problem"]), change["round"], change["loss"])
            for change in fields["changes"]
        )
        return Repaired(
            exit_code=fields["exit_code"],
            is_clean=fields["is_clean"],
            changes=changes,
            omitted=fields["omitted"],
            rounds=fields["rounds"],
            found=Report._of(fields["found"]),
            left=Report._of(fields["left"]),
            blocks=fields["blocks"],
            undo=undo,
            image=image,
        )


@dataclasses.dataclass(frozen=True)
class Resized:
    """What a resize did, or with `dry_run` would do."""

    block_size: int
    """Bytes of a block."""
    blocks_before: int
    """How many blocks it had."""
    blocks_after: int
    """How many it has, or would have."""
    blocks_moved: int
    """Blocks of files that are at another place."""
    blocks: int
    """Blocks that were written through the log: 0 with `dry_run`."""
    image: Optional[bytes] = dataclasses.field(default=None, repr=False)
    """The image, where it was given as bytes and is changed."""

    @property
    def bytes_after(self) -> int:
        """How many bytes the volume has, or would have."""
        return self.blocks_after * self.block_size


@dataclasses.dataclass(frozen=True)
class Trimmed:
    """What a trim did, or with `dry_run` would do."""

    block_size: int
    """Bytes of a block."""
    free_blocks: int
    """How many blocks are free."""
    unread_blocks: int
    """Blocks in use that nothing reads: 0 without `scrub`."""
    blocks: int
    """Blocks in use that were cleaned, or would be."""
    emptied_bytes: int
    """Bytes of free and unread blocks that were no holes."""
    image: Optional[bytes] = dataclasses.field(default=None, repr=False)
    """The image, where it was given as bytes and is changed."""


@dataclasses.dataclass(frozen=True)
class Normalized:
    """A volume that was laid out anew."""

    bytes: int
    """Bytes of its file."""
    block_size: int
    """Bytes of a block."""
    blocks: int
    """How many blocks it has."""
    free_blocks: int
    """Those that are free."""
    inodes: int
    """How many inodes it has."""
    free_inodes: int
    """Those that are free."""
    warnings: Tuple[str, ...]
    """What is not kept: sentences."""


@dataclasses.dataclass(frozen=True)
class Tuned:
    """What a change of a volume did, or with `dry_run` would do."""

    changes: Tuple[Tuple[str, str, str], ...]
    """What is different: what it is, how it was, and how it is."""
    blocks: int
    """Blocks that were written through the log: 0 with `dry_run`."""
    image: Optional[bytes] = dataclasses.field(default=None, repr=False)
    """The image, where it was given as bytes and is changed."""


@dataclasses.dataclass(frozen=True)
class Healed:
    """What became of an image that was to be made ready for use."""

    name: str
    """What the image is called."""
    state: str
    """clean, recovered, repaired or failed."""
    exit_code: int
    """That of fsck: 0 where it was clean or had only to be recovered, 1 where it was mended, 4
    where problems are left, 8 where it failed."""
    reason: Optional[str] = None
    """Why it was checked."""
    repaired: Optional[Repaired] = None
    """What was mended, where it was checked."""
    blocks: int = 0
    """Blocks that were written."""
    undo: Optional[str] = None
    """Where the bytes before are, if they are kept."""
    image: Optional[bytes] = dataclasses.field(default=None, repr=False)
    """The image, where it was given as bytes and is changed."""
    error: Optional[Exception] = None
    """Why it failed, where it is one of several."""

    @staticmethod
    def _of(
        name: str, fields: dict[str, Any], undo: Optional[str], image: Optional[bytes]
    ) -> Healed:
        found = fields.get("repaired")
        repaired = None if found is None else Repaired._of(found, undo, image)
        return Healed(
            name=name,
            state=fields["state"],
            exit_code=0 if repaired is None else repaired.exit_code,
            reason=fields.get("reason"),
            repaired=repaired,
            blocks=fields.get("blocks", 0) if repaired is None else repaired.blocks,
            undo=undo,
            image=image,
        )


@dataclasses.dataclass(frozen=True)
class Layout:
    """How well the files of a volume are laid out. All that `extant layout --json` has is in
    `details`."""

    files: int
    directories: int
    others: int
    data_blocks: int
    directory_blocks: int
    map_blocks: int
    layout_score: Optional[float]
    """The share of blocks that come right after the one before: 1 is perfect."""
    fragmented_files: int
    fragments: int
    faults: int
    """Things in maps and directories that cannot be."""
    details: dict[str, Any] = dataclasses.field(repr=False, hash=False, compare=False)

    @staticmethod
    def _parse(text: str) -> Layout:
        fields = json.loads(text)
        return _of(Layout, {**fields, "details": fields})


@dataclasses.dataclass(frozen=True)
class Taken:
    """What was taken out of an image."""

    files: int
    directories: int
    symlinks: int
    hard_links: int
    specials: int
    data_bytes: int
    warnings: Tuple[str, ...]
    """Sentences: what was left out, or could not be restored."""

    @staticmethod
    def _parse(text: str) -> Taken:
        return _of(Taken, json.loads(text))


@dataclasses.dataclass(frozen=True)
class Built:
    """An image that was built."""

    bytes: int
    block_size: int
    blocks: int
    free_blocks: int
    inodes: int
    free_inodes: int
    has_journal: bool
    uuid: str
    warnings: Tuple[str, ...]
    """What could not be kept, or may surprise: sentences."""
    image: Union[bytes, None] = dataclasses.field(default=None, repr=False)  # type: ignore
    """The image, where it was built into memory."""

    @staticmethod
    def _parse(text: str, image: Optional[Any]) -> Built:
        return _of(Built, {**json.loads(text), "image": image})


@dataclasses.dataclass(frozen=True)
class Copied:
    """What a copy did."""

    objects: int
    bytes: int


@dataclasses.dataclass(frozen=True)
class Facts:
    """What a volume is like."""

    block_size: int
    blocks: int
    free_blocks: int
    inodes: int
    free_inodes: int
    label: str
    uuid: str
    skipped: Tuple[str, ...]
    """What was lost of a damaged volume that was opened with `force_read`."""

    @staticmethod
    def _parse(text: str) -> Facts:
        return _of(Facts, json.loads(text))


@dataclasses.dataclass(frozen=True)
class Difference:
    """What differs between two trees under one path."""

    KINDS: ClassVar[Tuple[str, ...]] = (
        "removed",
        "added",
        "type",
        "mode",
        "owner",
        "flags",
        "time",
        "size",
        "content",
        "target",
        "device",
        "attribute",
        "links",
    )

    path: str
    """From the root, which is "/"."""
    kind: str
    """One of `KINDS`."""
    name: Optional[str]
    """Of an attribute."""
    a: Any
    """What the first tree has; for `content` the first byte that differs."""
    b: Any
    """What the second tree has."""
