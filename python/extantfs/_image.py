"""An image that is open."""

from __future__ import annotations

import io
import os
from typing import IO, Any, Callable, Iterable, Iterator, Optional, Tuple, Union

from . import _native
from ._path import Path, Place, encoded, items, pure
from ._taking import Present, written
from ._reports import Difference, Facts, Layout, Report, Taken
from ._transaction import Transaction

__all__ = ["Image", "Progress", "Source", "check", "open"]

Source = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]", bytearray, memoryview, Any]
"""An image: a path, with an `@PART` perhaps; its bytes; or a file object of them."""

Progress = Callable[[int, Optional[int]], object]
"""Is called with what is done, and what there is to do, if that is known. What it raises ends the
work."""


def open(
    source: Source,
    mode: str = "r",
    *,
    partition: Optional[str] = None,
    offset: Optional[int] = None,
    journal: Optional[Place] = None,
    force_read: bool = False,
    despite_errors: bool = False,
    cache_bytes: Optional[int] = None,
    policies: Optional[str] = None,
    time: Optional[int] = None,
) -> Image:
    """Opens an image: a path such as `disk.img`, `disk.img@root` or `disk.img@@1M`; bytes; or a
    file object with read and seek.

    With the mode `r` it is only read. With `r+` transactions may be begun too; between them nothing
    of it is written, so others may read it; bytes that were changed are in `Image.getvalue()`.

    `partition` and `offset` say which part of it is the volume, `journal` where a journal is that
    is on another device, `force_read` that reading goes on over damage, and `despite_errors` that a
    volume with errors is written. `cache_bytes` is the memory for blocks, `policies` where files
    go, `time` a second since 1970 that it always is.

    Raises OSError's kin: FileNotFoundError, NotAVolumeError, InUseError, DamagedError and others.
    """
    wishes = _wishes(
        partition=partition,
        offset=offset,
        journal=journal,
        force_read=force_read,
        despite_errors=despite_errors,
        cache_bytes=cache_bytes,
        policies=policies,
        time=time,
    )
    return Image(source, mode, wishes)


def check(
    source: Source,
    *,
    partition: Optional[str] = None,
    offset: Optional[int] = None,
    journal: Optional[Place] = None,
    progress: Optional[Progress] = None,
) -> Report:
    """Checks an image, as `Image.check` does. That it is no volume is a finding too. The wishes are
    those of `open`: partition, offset, journal."""
    kind, place, _ = _placed(source)
    wishes = _wishes(partition=partition, offset=offset, journal=journal)
    return Report._parse(_native.check(kind, place, wishes, progress))


def _wishes(journal: Any = None, **wishes: Any) -> dict[str, Any]:
    """Those that were said."""
    said = {key: value for key, value in wishes.items() if value is not None and value is not False}
    if journal is not None:
        said["journal"] = os.fsencode(journal)
    return said


def _placed(source: Source) -> Tuple[str, Any, str]:
    """What the library calls it, and its name."""
    if isinstance(source, (str, os.PathLike)):
        return "path", os.fsencode(source), os.fsdecode(source)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return "bytes", bytes(source), "<bytes>"
    if hasattr(source, "read") and hasattr(source, "seek"):
        return "object", source, str(getattr(source, "name", "<file object>"))
    kind = type(source).__name__
    raise TypeError(f"an image is a path, bytes or a file object, not {kind}")


class Image:
    """An open image. `extantfs.open` makes one; `with` closes it.

    It may be used by several threads. In a process that was forked of the one that opened it each
    call raises RuntimeError."""

    def __init__(self, source: Source, mode: str, wishes: dict[str, Any]) -> None:
        if mode not in ("r", "r+"):
            raise ValueError(f"mode {mode!r}: an image is opened with r or r+")
        self.mode = mode
        kind, place, self.name = _placed(source)
        self._native = _native.Image(kind, place, wishes)

    def close(self) -> None:
        """Closes it, with all files that are open. A transaction that is open is dropped."""
        self._native.close()

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._native.closed

    def __enter__(self) -> Image:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<extantfs.Image {self.name!r} {self.mode!r}>"

    # Paths.

    def path(self, place: Place = "/") -> Path:
        """A path in it, from the root."""
        return Path(self, pure(place))

    @property
    def root(self) -> Path:
        """The root directory."""
        return Path(self)

    def __truediv__(self, place: Place) -> Path:
        return self.path(place)

    def iterdir(self) -> Iterator[Path]:
        """What is in the root directory, by name."""
        return self.root.iterdir()

    def walk(self, **wishes: Any) -> Iterator[Tuple[Path, list[str], list[str]]]:
        """All directories, as `Path.walk`."""
        return self.root.walk(**wishes)

    def glob(self, pattern: str) -> Iterator[Path]:
        """What matches a pattern from the root on."""
        return self.root.glob(pattern)

    # The volume.

    @property
    def facts(self) -> Facts:
        """Label, UUID, used and free room."""
        return Facts._parse(self._native.facts())

    def getvalue(self) -> bytes:
        """All bytes of an image that was opened on bytes, with the changes that were committed."""
        found = self._native.memory()
        if found is None:
            raise io.UnsupportedOperation("the image was not opened on bytes")
        return found

    def check(self, progress: Optional[Progress] = None) -> Report:
        """Whether the volume is what its own metadata says: `e2fsck -fn`. Nothing is written."""
        return Report._parse(self._native.check(progress))

    def layout(self) -> Layout:
        """How well its files are laid out. Nothing is written."""
        return Layout._parse(self._native.layout())

    # What is in it, taken out.

    def tar(
        self,
        target: Union[str, "os.PathLike[str]", bytes, IO[bytes]],
        paths: Union[Place, Iterable[Place]] = (),
        *,
        replace: bool = False,
        progress: Optional[Progress] = None,
    ) -> Taken:
        """Writes a tar archive of all, or of what is at and below the paths, to a path or to a file
        object. What fails leaves no file, and one that was there as it was.
        The image itself is refused."""
        places = [_inside(place) for place in items(paths)]
        identity = self._native.identity()
        with written(target, identity, Present.REPLACED if replace else Present.KEPT) as file:
            return Taken._parse(self._native.tar(file, places, progress))

    def extract(
        self,
        folder: Union[str, "os.PathLike[str]", bytes],
        paths: Union[Place, Iterable[Place]] = (),
        *,
        replace: bool = False,
        progress: Optional[Progress] = None,
    ) -> Taken:
        """Puts all, or what is at and below the paths, into a folder of the host, which is made if
        it is missing. Nothing is made outside of it, whatever the image holds."""
        places = [_inside(place) for place in items(paths)]
        taken = self._native.extract(os.fsencode(folder), places, replace, progress)
        return Taken._parse(taken)

    def diff(
        self,
        other: Union[Image, str, "os.PathLike[str]", bytes],
        *,
        path: Place = "/",
        other_path: Place = "/",
        ignore: Union[str, Iterable[str]] = (),
        exclude: Union[str, Iterable[str]] = (),
        progress: Optional[Progress] = None,
    ) -> list[Difference]:
        """What differs from another image, from a folder of the host or from an archive, sorted by
        path. `ignore` has words of: times, directory-times, nanoseconds, owner, mode, flags,
        attributes, links, contents; `exclude` has patterns of names or paths."""
        image = other._native if isinstance(other, Image) else None
        there = _inside(other_path) if isinstance(other, Image) else os.fsencode(other)
        rows = self._native.diff(
            _inside(path), image, there, items(ignore), items(exclude), progress
        )
        return [
            Difference(
                "/" + os.fsdecode(place),
                kind,
                None if name is None else os.fsdecode(name),
                a,
                b,
            )
            for place, kind, name, a, b in rows
        ]

    # Changes.

    def transaction(self) -> Transaction:
        """Changes that reach the image together or not at all, in a `with` block. What leaves the
        block by an exception changes nothing."""
        if self.mode != "r+":
            raise io.UnsupportedOperation("the image was opened for reading: mode='r+' writes")
        return Transaction(self)


def _inside(place: Place) -> bytes:
    found = encoded(place).lstrip(b"/")
    return found or b"/"
