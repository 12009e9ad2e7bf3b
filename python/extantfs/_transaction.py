"""Changes of an image that are whole or not at all."""

from __future__ import annotations

import os
import stat as stats
from typing import IO, TYPE_CHECKING, Any, Optional, Tuple, Union

from ._files import Raw, as_bytes, next_piece
from ._path import Path, Place, encoded, layered, pure
from ._reports import Copied

if TYPE_CHECKING:
    from ._image import Image

__all__ = ["Content", "Transaction"]

Content = Union[bytes, bytearray, memoryview, str, IO[bytes]]
"""What a file holds: bytes, text in UTF-8, or a file object of bytes."""

_PIECE = 1 << 20


class Transaction:
    """`Image.transaction()` makes one. Until its end the image shows what it has changed so far."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self._is_open = False

    def __enter__(self) -> Transaction:
        self.image._native.begin()
        self._is_open = True
        return self

    def __exit__(self, kind: Optional[type[BaseException]], *_: object) -> None:
        if not self._is_open:
            return
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def commit(self) -> None:
        """Brings the changes to the image: all of them, or none. Nothing can be changed after
        that."""
        self._check()
        self._is_open = False
        self.image._native.commit()

    def rollback(self) -> None:
        """Drops the changes."""
        self._check()
        self._is_open = False
        self.image._native.roll_back()

    def _check(self) -> None:
        if not self._is_open:
            raise ValueError("I/O operation on closed transaction")

    def _change(self, name: str, place: Place, *words: Any) -> None:
        self._check()
        self.image._native.change(name, (encoded(place), *words))

    def path(self, place: Place = "/") -> Path:
        """A path in the image, as it is changed so far."""
        return self.image.path(place)

    def __truediv__(self, place: Place) -> Path:
        return self.path(place)

    # Files.

    def write(
        self,
        place: Place,
        content: Content = b"",
        *,
        mode: Optional[int] = None,
        owner: Optional[Tuple[int, int]] = None,
    ) -> None:
        """Makes a file, or gives one that is there another content. A new one is root's, with the
        mode 0644."""
        if isinstance(content, str):
            content = content.encode()
        if hasattr(content, "read"):
            with self.open(place, "wb") as file:
                while piece := next_piece(content, _PIECE):
                    file.write(piece)
        else:
            self._change("write", place, as_bytes(content))
        self._dress(place, mode, owner)

    def open(
        self,
        place: Place,
        mode: str = "w",
        buffering: int = -1,
        encoding: Optional[str] = None,
        errors: Optional[str] = None,
        newline: Optional[str] = None,
    ) -> IO[Any]:
        """Opens a file for writing (`w`, `wb`), which cuts it to nothing, or for reading. It is
        closed with the transaction: what is left in a buffer then is lost."""
        self._check()
        kind = mode.replace("b", "").replace("t", "")
        if kind == "r":
            return self.path(place).open(mode, buffering, encoding, errors, newline)
        if kind != "w" or ("b" in mode and "t" in mode):
            raise ValueError(f"mode {mode!r}: r, rb, w or wb")
        file = self.image._native.create_file(encoded(place))
        raw = Raw(file, str(pure(place)), writable=True)
        return layered(raw, mode, buffering, encoding, errors, newline)

    def copy(
        self,
        source: Union[str, bytes, "os.PathLike[str]", Path],
        target: Place,
        *,
        preserve: bool = False,
        owner: Optional[Tuple[int, int]] = None,
        mode: Optional[int] = None,
    ) -> Copied:
        """Copies a file of the host, or a path of this image or another, to a new name or into a
        directory that is there; directories with all that is in them, and symlinks as they are.
        With `preserve` owners, modes, times, attributes and hard links are kept; else all belongs
        to root."""
        self._check()
        to = pure(target)
        image = None
        if isinstance(source, Path):
            image, name, from_bytes = source.image._native, source.name, encoded(source)
        else:
            from_bytes = os.fsencode(source)
            name = os.path.basename(os.path.normpath(os.fsdecode(source)))
        if name not in ("", ".", "..") and self.path(to).is_dir():
            to = to / name
        to_bytes = encoded(str(to))
        copied = self.image._native.copy(image, from_bytes, to_bytes, preserve, owner, mode)
        return Copied(*copied)

    # Names.

    def mkdir(
        self,
        place: Place,
        mode: Optional[int] = None,
        parents: bool = False,
        exist_ok: bool = False,
        *,
        owner: Optional[Tuple[int, int]] = None,
    ) -> None:
        """Makes a directory: root's, with the mode 0755."""
        if exist_ok and self.path(place).is_dir():
            return
        if parents:
            above = pure(place).parent
            self._change("makedirs", str(above))
        self._change("mkdir", place)
        self._dress(place, mode, owner)

    def remove(self, place: Place, *, recursive: bool = False, missing_ok: bool = False) -> None:
        """Removes a name: of a file, of an empty directory, or of a directory with all that is in
        it."""
        try:
            found = self.path(place).lstat()
            if recursive:
                self._change("remove", place)
            elif stats.S_ISDIR(found.st_mode):
                self._change("rmdir", place)
            else:
                self._change("unlink", place)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def rename(self, place: Place, to: Place) -> Path:
        """Moves a name, and replaces what has the new one."""
        self._change("rename", place, encoded(to))
        return self.path(to)

    def symlink(self, target: Union[str, bytes, "os.PathLike[str]"], place: Place) -> None:
        """Makes a symlink at a place, which leads to a target."""
        self._change("symlink", place, os.fsencode(os.fspath(target)))

    def link(self, original: Place, place: Place) -> None:
        """Gives a file another name."""
        self._change("link", place, encoded(original))

    def mknod(self, place: Place, mode: int, device: int = 0) -> None:
        """Makes a FIFO, a socket or a device, by the type in its mode (stat.S_IFIFO | 0o644)."""
        self._change("mknod", place, mode, os.major(device), os.minor(device))

    # Facts.

    def chmod(self, place: Place, mode: int) -> None:
        """Gives the twelve lower bits of the mode. Symlinks are not followed."""
        self._change("chmod", place, mode)

    def chown(self, place: Place, uid: int, gid: int) -> None:
        """Gives an owner and a group; set-user-ID ends with that. Symlinks are not followed."""
        self._change("chown", place, uid, gid)

    def utime(self, place: Place, *, ns: int) -> None:
        """Says when the content changed, in nanoseconds since 1970."""
        self._change("utime", place, ns)

    def set_xattr(self, place: Place, name: Union[str, bytes], value: bytes) -> None:
        """Sets an extended attribute (`user.note`)."""
        self._change("set_xattr", place, os.fsencode(name), as_bytes(value))

    def remove_xattr(self, place: Place, name: Union[str, bytes]) -> None:
        """Removes an extended attribute."""
        self._change("remove_xattr", place, os.fsencode(name))

    def _dress(
        self, place: Place, mode: Optional[int], owner: Optional[Tuple[int, int]]
    ) -> None:
        # A mode after the owner: set-user-ID ends with a new one.
        if owner is not None:
            self.chown(place, *owner)
        if mode is not None:
            self.chmod(place, mode)
