"""Paths in an image, with the words of pathlib."""

from __future__ import annotations

import errno
import fnmatch
import io
import os
import re
import stat as stats
from functools import lru_cache
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any, Callable, Iterator, Optional, Tuple, Union

from ._files import Raw

if TYPE_CHECKING:
    from ._image import Image

__all__ = ["Path", "Place"]

Place = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]", "Path"]
"""What names a file in an image."""

_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP)


def pure(place: Place) -> PurePosixPath:
    """A place as a path from the root."""
    if isinstance(place, Path):
        return place.pure
    # Of two slashes at the beginning POSIX, and pathlib, make a root of their own.
    return PurePosixPath("/" + os.fsdecode(place).lstrip("/"))


def items(one_or_many: Any) -> list[Any]:
    """A list of what may be one item: text has characters, which nobody means."""
    if isinstance(one_or_many, (str, bytes, os.PathLike, Path)):
        return [one_or_many]
    return list(one_or_many)


def encoded(place: Place) -> bytes:
    """A place as the bytes that it has on the volume."""
    return os.fsencode(str(pure(place)))


class Path:
    """A path in an open image. As pathlib's: `image / "etc" / "passwd"`."""

    __slots__ = ("image", "pure")

    image: Image
    pure: PurePosixPath
    """The path alone, from the root."""

    def __init__(self, image: Image, place: Place = "/") -> None:
        self.image = image
        self.pure = pure(place)

    # What the words alone say.

    def _with(self, other: PurePosixPath) -> Path:
        return Path(self.image, other)

    def __truediv__(self, other: Place) -> Path:
        return self._with(self.pure / (other.pure if isinstance(other, Path) else _text(other)))

    def joinpath(self, *others: Place) -> Path:
        """The path with others behind it."""
        found = self
        for other in others:
            found = found / other
        return found

    @property
    def name(self) -> str:
        """The last name; empty for the root."""
        return self.pure.name

    @property
    def stem(self) -> str:
        """The last name without its suffix."""
        return self.pure.stem

    @property
    def suffix(self) -> str:
        """The end of the last name from its last dot on."""
        return self.pure.suffix

    @property
    def suffixes(self) -> list[str]:
        """All suffixes of the last name."""
        return self.pure.suffixes

    @property
    def parts(self) -> Tuple[str, ...]:
        """The root and the names."""
        return self.pure.parts

    @property
    def parent(self) -> Path:
        """The folder that it is in; of the root, the root."""
        return self._with(self.pure.parent)

    @property
    def parents(self) -> Tuple[Path, ...]:
        """All folders that it is in, the nearest first."""
        return tuple(self._with(parent) for parent in self.pure.parents)

    def with_name(self, name: str) -> Path:
        """With another last name."""
        return self._with(self.pure.with_name(name))

    def with_suffix(self, suffix: str) -> Path:
        """With another suffix."""
        return self._with(self.pure.with_suffix(suffix))

    def relative_to(self, other: Place) -> PurePosixPath:
        """The way from another path of the image to this one."""
        return self.pure.relative_to(pure(other))

    def is_relative_to(self, other: Place) -> bool:
        """Whether it is at or below another path."""
        return self.pure.is_relative_to(pure(other))

    def match(self, pattern: str) -> bool:
        """Whether it matches a pattern, as pathlib has it."""
        return self.pure.match(pattern)

    def as_posix(self) -> str:
        """The path as text."""
        return str(self.pure)

    def __str__(self) -> str:
        return str(self.pure)

    def __bytes__(self) -> bytes:
        return os.fsencode(str(self.pure))

    def __repr__(self) -> str:
        return f"<extantfs.Path {str(self.pure)!r} of {self.image.name!r}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Path):
            return NotImplemented
        return self.image is other.image and self.pure == other.pure

    def __lt__(self, other: Path) -> bool:
        if not isinstance(other, Path):
            return NotImplemented
        return self.pure < other.pure

    def __hash__(self) -> int:
        return hash((id(self.image), self.pure))

    # What the image says.

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """What stat tells of it. `st_birthtime_ns` is not among it: see `birth_time_ns`."""
        return result(self.image._native.stat(encoded(self), follow_symlinks))

    def lstat(self) -> os.stat_result:
        """What stat tells of it, a symlink itself."""
        return self.stat(follow_symlinks=False)

    def birth_time_ns(self) -> Optional[int]:
        """When it was made, in nanoseconds since 1970, if the volume has room for that."""
        found: Optional[int] = self.image._native.stat(encoded(self), False)[2][3]
        return found

    def _is(self, kind: Callable[[int], bool], follow_symlinks: bool = True) -> bool:
        try:
            return kind(self.stat(follow_symlinks=follow_symlinks).st_mode)
        except OSError as error:
            if error.errno in _ABSENT:
                return False
            raise

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Whether something is there."""
        return self._is(lambda _: True, follow_symlinks)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether a directory is there."""
        return self._is(stats.S_ISDIR, follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether a regular file is there."""
        return self._is(stats.S_ISREG, follow_symlinks)

    def is_symlink(self) -> bool:
        """Whether a symlink is there."""
        return self._is(stats.S_ISLNK, False)

    def is_fifo(self) -> bool:
        """Whether a FIFO is there."""
        return self._is(stats.S_ISFIFO)

    def is_socket(self) -> bool:
        """Whether a socket is there."""
        return self._is(stats.S_ISSOCK)

    def is_block_device(self) -> bool:
        """Whether a block device is there."""
        return self._is(stats.S_ISBLK)

    def is_char_device(self) -> bool:
        """Whether a character device is there."""
        return self._is(stats.S_ISCHR)

    def samefile(self, other: Place) -> bool:
        """Whether both are names of one file."""
        return self.stat().st_ino == Path(self.image, other).stat().st_ino

    def readlink(self) -> PurePosixPath:
        """Where a symlink leads, as it says."""
        return PurePosixPath(os.fsdecode(self.image._native.read_link(encoded(self))))

    def xattrs(self) -> dict[str, bytes]:
        """All extended attributes; of a symlink its own."""
        found = self.image._native.attributes(encoded(self))
        return {os.fsdecode(name): value for name, value in found.items()}

    def scan(self) -> list[Tuple[Path, os.stat_result]]:
        """What is in a directory by name, each with what lstat tells: one call for all."""
        rows = self.image._native.scan(encoded(self))
        return [(self / os.fsdecode(name), result(found)) for name, found in rows]

    def iterdir(self) -> Iterator[Path]:
        """What is in a directory, by name."""
        return iter([path for path, _ in self.scan()])

    def walk(
        self,
        top_down: bool = True,
        on_error: Optional[Callable[[OSError], object]] = None,
        follow_symlinks: bool = False,
    ) -> Iterator[Tuple[Path, list[str], list[str]]]:
        """Each directory at and below it, with the names of directories and of all others in it."""
        seen = {self.stat().st_ino} if follow_symlinks else set()
        levels: list[Any] = [(self, None)]
        while levels:
            here, done = levels.pop()
            if done is not None:
                yield here, *done
                continue
            try:
                rows = here.scan()
            except OSError as error:
                if on_error is not None:
                    on_error(error)
                continue
            folders: list[str] = []
            others: list[str] = []
            for path, found in rows:
                is_folder = stats.S_ISDIR(found.st_mode)
                if follow_symlinks and stats.S_ISLNK(found.st_mode):
                    is_folder = path.is_dir()
                (folders if is_folder else others).append(path.name)
            if top_down:
                yield here, folders, others
            else:
                levels.append((here, (folders, others)))
            for name in reversed(folders):
                below = here / name
                if follow_symlinks:
                    number = below.stat().st_ino
                    if number in seen:
                        continue
                    seen.add(number)
                levels.append((below, None))

    def glob(self, pattern: str) -> Iterator[Path]:
        """What matches a pattern below it; `**` is any number of directories, and symlinks are not
        followed there. A pattern that ends with a slash matches directories alone."""
        parts = PurePosixPath(pattern).parts
        if not parts:
            raise ValueError(f"unacceptable pattern: {pattern!r}")
        if parts[0].startswith("/"):
            raise NotImplementedError("non-relative patterns are unsupported")
        found = _unique(self._matching(parts))
        if pattern.endswith("/"):
            return iter(path for path in found if path.is_dir())
        return iter(found)

    def rglob(self, pattern: str) -> Iterator[Path]:
        """As glob, at any depth."""
        return self.glob(f"**/{pattern}")

    def _matching(self, parts: Tuple[str, ...]) -> Iterator[Path]:
        if not parts:
            yield self
            return
        first, rest = parts[0], parts[1:]
        if first == "**":
            for folder, _, _ in self.walk():
                if rest:
                    yield from folder._matching(rest)
                else:
                    yield folder
        elif not any(sign in first for sign in "*?["):
            below = self / first
            if below.exists(follow_symlinks=bool(rest)):
                yield from below._matching(rest)
        else:
            matches = _pattern(first)
            try:
                rows = self.scan()
            except OSError as error:
                if error.errno not in _ABSENT:
                    raise
                return
            for path, found in rows:
                if matches(path.name) is None:
                    continue
                if not rest:
                    yield path
                elif stats.S_ISDIR(found.st_mode) or path.is_dir():
                    yield from path._matching(rest)

    def open(
        self,
        mode: str = "r",
        buffering: int = -1,
        encoding: Optional[str] = None,
        errors: Optional[str] = None,
        newline: Optional[str] = None,
    ) -> IO[Any]:
        """Opens the file for reading, as text unless the mode has a `b`. It is closed with the
        image. (`Transaction.open` opens files for writing.)"""
        if mode.replace("b", "").replace("t", "") != "r" or ("b" in mode and "t" in mode):
            raise ValueError(f"mode {mode!r}: a file of an image is opened with r or rb")
        raw = Raw(self.image._native.open_file(encoded(self)), self.as_posix(), writable=False)
        return layered(raw, mode, buffering, encoding, errors, newline)

    def read_bytes(self, offset: int = 0, length: int = -1) -> bytes:
        """The bytes of a file, or at most `length` of them from `offset` on."""
        return self.image._native.read(encoded(self), offset, length)

    def read_text(self, encoding: Optional[str] = None, errors: Optional[str] = None) -> str:
        """The text of a file."""
        with self.open("r", encoding=encoding, errors=errors) as file:
            return str(file.read())


def layered(
    raw: Raw,
    mode: str,
    buffering: int,
    encoding: Optional[str],
    errors: Optional[str],
    newline: Optional[str],
) -> IO[Any]:
    """A raw file as the mode has it."""
    if "b" in mode:
        if encoding is not None or errors is not None or newline is not None:
            raw.close()
            raise ValueError("a file of bytes takes no encoding, errors or newline")
        if buffering == 0:
            return raw  # type: ignore[return-value]
    size = buffering if buffering > 1 else 1 << 16
    buffered: Any
    if raw.writable():
        buffered = io.BufferedWriter(raw, size)
    else:
        buffered = io.BufferedReader(raw, size)
    if "b" in mode:
        return buffered  # type: ignore[no-any-return]
    return io.TextIOWrapper(buffered, encoding, errors, newline)


def result(found: Any) -> os.stat_result:
    """What the library tells as what os.stat returns."""
    (mode, ino, links, uid, gid), (size, sectors, block_size), times, device = found
    read, written, changed, _ = times
    seconds = 10**9
    return os.stat_result(
        (mode, ino, 0, links, uid, gid, size)
        + (read // seconds, written // seconds, changed // seconds),
        {
            "st_atime": read / seconds,
            "st_mtime": written / seconds,
            "st_ctime": changed / seconds,
            "st_atime_ns": read,
            "st_mtime_ns": written,
            "st_ctime_ns": changed,
            "st_blksize": block_size,
            "st_blocks": sectors,
            "st_rdev": os.makedev(*device) if device else 0,
        },
    )


def _text(place: Any) -> str:
    return os.fsdecode(place)


@lru_cache(maxsize=256)
def _pattern(text: str) -> Callable[[str], Optional[re.Match[str]]]:
    return re.compile(fnmatch.translate(text)).match


def _unique(paths: Iterator[Path]) -> Iterator[Path]:
    seen = set()
    for path in paths:
        if path.pure not in seen:
            seen.add(path.pure)
            yield path
