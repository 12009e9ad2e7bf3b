"""Open files as Python's own: raw, below its buffers."""

from __future__ import annotations

import errno
import io
import os
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from ._native import File

__all__ = ["Raw", "as_bytes", "next_piece"]


def as_bytes(content: Any) -> bytes:
    """The bytes of what holds some. A number is none: `bytes` would make as many zeros of it."""
    return content if isinstance(content, bytes) else bytes(memoryview(content))


def next_piece(content: Any, length: int) -> Any:
    """What a file object reads next. One that does not wait, and has nothing yet, has not ended."""
    piece = content.read(length)
    if piece is None:
        raise BlockingIOError(errno.EAGAIN, "the file object has nothing yet, and does not wait")
    return piece


class Raw(io.RawIOBase):
    """A file of an image, without a buffer."""

    name: str

    def __init__(self, file: File, name: str, *, writable: bool) -> None:
        super().__init__()
        self._file = file
        self._at = 0
        self._is_writable = writable
        self.name = name

    def readable(self) -> bool:
        return not self._is_writable

    def writable(self) -> bool:
        return self._is_writable

    def seekable(self) -> bool:
        return True

    def _check(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def readinto(self, buffer: Any) -> int:
        self._check()
        if self._is_writable:
            raise io.UnsupportedOperation("not readable")
        view = memoryview(buffer).cast("B")
        found = self._file.read_at(self._at, len(view))
        view[: len(found)] = found
        self._at += len(found)
        return len(found)

    def readall(self) -> bytes:
        self._check()
        rest = max(self._file.size() - self._at, 0)
        found = []
        while rest > 0:
            piece = self._file.read_at(self._at, min(rest, 16 << 20))
            if not piece:
                break
            found.append(piece)
            self._at += len(piece)
            rest -= len(piece)
        return b"".join(found)

    def write(self, content: Any) -> int:
        self._check()
        if not self._is_writable:
            raise io.UnsupportedOperation("not writable")
        content = as_bytes(content)
        self._file.write_at(self._at, content)
        self._at += len(content)
        return len(content)

    def truncate(self, size: Optional[int] = None) -> int:
        self._check()
        if not self._is_writable:
            raise io.UnsupportedOperation("not writable")
        size = self._at if size is None else size
        self._file.truncate(size)
        return size

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check()
        if whence == os.SEEK_SET:
            place = offset
        elif whence == os.SEEK_CUR:
            place = self._at + offset
        elif whence == os.SEEK_END:
            place = self._file.size() + offset
        else:
            raise ValueError(f"invalid whence ({whence}, should be 0, 1 or 2)")
        if place < 0:
            raise ValueError(f"negative seek position {place}")
        self._at = place
        return place

    def tell(self) -> int:
        self._check()
        return self._at

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._file.close()
