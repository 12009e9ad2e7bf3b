"""Images for fsspec: `ext4://etc/passwd::file:///tmp/disk.img`, for all that reads through it.

The protocols `ext4`, `ext3` and `ext2` are the same. What the image is on may be anything that
fsspec opens: a path of the host is read where it is, and may be written; anything else is read
through its file object, piece by piece.

fsspec keeps its file systems for the whole process. So an image on a path of the host is open only
during a call and while a file of it is: between them others may change it.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import stat as stats
import sys
import tempfile
import threading
from datetime import datetime, timezone
from typing import Any, Callable, Iterator, Optional, Tuple, TypeVar

import fsspec
from fsspec.compression import compr
from fsspec.core import OpenFile, get_compression
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem
from fsspec.utils import stringify_path

from ._files import as_bytes
from ._image import Image
from ._image import open as open_image
from ._path import Path, items
from ._transaction import Transaction

__all__ = ["ExtFileSystem"]

_KINDS = {
    stats.S_IFREG: "file",
    stats.S_IFDIR: "directory",
    stats.S_IFLNK: "link",
    stats.S_IFIFO: "fifo",
    stats.S_IFSOCK: "socket",
    stats.S_IFCHR: "character device",
    stats.S_IFBLK: "block device",
}
_LOCAL = ("file", "local")
_OPTIONS = ("partition", "offset", "journal", "force_read", "cache_bytes", "time")
_BASE_OPTIONS = (
    "asynchronous",
    "auto_mkdir",
    "batch_size",
    "listings_expiry_time",
    "loop",
    "max_paths",
    "protocol",
    "use_listings_cache",
)
"""What fsspec hands to any file system."""


_Method = TypeVar("_Method", bound=Callable[..., Any])


def _holding(method: _Method) -> _Method:
    """The method, with the image open for as long as it runs."""

    @functools.wraps(method)
    def held(self: ExtFileSystem, *args: Any, **kwargs: Any) -> Any:
        with self._held():
            return method(self, *args, **kwargs)

    return held  # type: ignore[return-value]


class ExtFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """What is in an ext2, ext3 or ext4 image.

    `fo` is the image: a path of the host with an `@PART` perhaps, the address of anything that
    fsspec opens, bytes, or a file object. A path of the host is written too, unless the mode is
    `r`: each file that is closed, and each other change, is one transaction. Further words are
    those of `extantfs.open`: partition, offset, journal, force_read, cache_bytes, time.
    """

    protocol = ("ext4", "ext3", "ext2")
    root_marker = ""
    cachable = True

    def __init__(
        self,
        fo: Any = "",
        mode: str = "r+",
        target_protocol: Optional[str] = None,
        target_options: Optional[dict[str, Any]] = None,
        **wishes: Any,
    ) -> None:
        for name in wishes:
            if name not in (*_OPTIONS, *_BASE_OPTIONS):
                raise TypeError(f"{type(self).__name__}: unexpected keyword argument {name!r}")
        super().__init__(fo=fo, mode=mode, **wishes)
        if mode not in ("r", "r+"):
            raise ValueError(f"mode {mode!r}: an image is opened with r or r+")
        if isinstance(fo, (str, os.PathLike)) and not stringify_path(fo):
            raise ValueError("fo is missing: the image, as in ext4://etc/passwd::file:///disk.img")
        self.fo = fo
        self.mode = mode
        self.target_protocol = target_protocol
        self.target_options = target_options or {}
        self._wishes = {key: wishes[key] for key in _OPTIONS if key in wishes}
        self._lock = threading.RLock()
        self._image: Optional[Image] = None
        self._target: Any = None
        self._process = os.getpid()
        # Calls and open files that use the image now; whether it stays open after them.
        self._users = 0
        self._stays = False

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = stringify_path(path)
        for protocol in cls.protocol:
            if path.startswith(f"{protocol}://"):
                path = path[len(protocol) + 3 :]
                break
        return path.strip("/")

    # The image.

    @property
    def image(self) -> Image:
        """The image, in each process anew. Who asks for it keeps it open until `close`."""
        with self._lock:
            image = self._opened()
            self._stays = True
            return image

    def _opened(self) -> Image:
        with self._lock:
            if self._process != os.getpid():
                self._image, self._target, self._process = None, None, os.getpid()
                self._users, self._stays = 0, False
            if self._image is None or self._image.closed:
                source, mode = self._source()
                self._image = open_image(source, mode, **self._wishes)
            return self._image

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """Lets go of an image on the host when the last that uses it is done with it."""
        with self._lock:
            if self._process != os.getpid():
                self._opened()
            self._users += 1
            process = self._process
        try:
            yield
        finally:
            with self._lock:
                if self._process == process == os.getpid():
                    self._users -= 1
                    if self._users == 0 and not self._stays and self._is_on_host():
                        self.close()

    def _is_on_host(self) -> bool:
        return isinstance(self.fo, (str, os.PathLike)) and self._target is None

    def _source(self) -> Any:
        """What the image is opened on, and how."""
        fo = self.fo
        if not isinstance(fo, (str, os.PathLike)):
            return fo, self.mode if hasattr(fo, "write") or isinstance(fo, bytes) else "r"
        fo = stringify_path(fo)
        protocol, path = fsspec.core.split_protocol(fo)
        protocol = self.target_protocol or protocol or "file"
        if protocol in _LOCAL:
            return (path if path is not None else fo), self.mode
        self._target = fsspec.open(
            fo, mode="rb", protocol=self.target_protocol, **self.target_options
        ).open()
        return self._target, "r"

    def close(self) -> None:
        """Closes the image; the next call opens it anew."""
        with self._lock:
            if self._image is not None and self._process == os.getpid():
                self._image.close()
            if self._target is not None:
                self._target.close()
            self._image, self._target, self._stays = None, None, False

    def _change(self) -> _Change:
        return _Change(self)

    # What is there.

    def _entry(self, path: str, found: os.stat_result) -> dict[str, Any]:
        kind = _KINDS.get(stats.S_IFMT(found.st_mode), "other")
        entry = {
            "name": path,
            "size": found.st_size if kind == "file" else 0,
            "type": kind,
            "mode": found.st_mode,
            "uid": found.st_uid,
            "gid": found.st_gid,
            "mtime": found.st_mtime,
            "ino": found.st_ino,
            "nlink": found.st_nlink,
            "islink": kind == "link",
        }
        if kind == "link":
            place = self._opened().path(path)
            entry["destination"] = str(place.readlink())
            try:
                led = place.stat()
            except OSError:
                return entry
            entry["type"] = _KINDS.get(stats.S_IFMT(led.st_mode), "other")
            entry["size"] = led.st_size if entry["type"] == "file" else 0
        return entry

    @_holding
    def info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        return self._entry(path, self._opened().path(path).lstat())

    @_holding
    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        path = self._strip_protocol(path)
        place = self._opened().path(path)
        if not place.is_dir():
            entries = [self.info(path)]
        else:
            entries = [
                self._entry(self._strip_protocol(str(below)), found)
                for below, found in place.scan()
            ]
            for entry in entries:
                # Whatever goes through a tree by this list does not leave it.
                if entry["islink"] and entry["type"] == "directory":
                    entry["type"] = "link"
        return entries if detail else [entry["name"] for entry in entries]

    @_holding
    def exists(self, path: str, **_: Any) -> bool:
        return self._opened().path(self._strip_protocol(path)).exists()

    @_holding
    def isdir(self, path: str) -> bool:
        return self._opened().path(self._strip_protocol(path)).is_dir()

    @_holding
    def isfile(self, path: str) -> bool:
        return self._opened().path(self._strip_protocol(path)).is_file()

    @_holding
    def created(self, path: str) -> datetime:
        place = self._opened().path(self._strip_protocol(path))
        made = place.birth_time_ns()
        if made is None:
            made = place.lstat().st_ctime_ns
        return datetime.fromtimestamp(made / 10**9, tz=timezone.utc)

    @_holding
    def modified(self, path: str) -> datetime:
        found = self._opened().path(self._strip_protocol(path)).stat()
        return datetime.fromtimestamp(found.st_mtime, tz=timezone.utc)

    @_holding
    def ukey(self, path: str) -> str:
        found = self._opened().path(self._strip_protocol(path)).stat()
        facts = self._opened().facts
        return f"{facts.uuid}-{found.st_ino}-{found.st_ctime_ns}-{found.st_size}"

    @_holding
    def find(self, *args: Any, **kwargs: Any) -> Any:
        return super().find(*args, **kwargs)

    # Bytes.

    @_holding
    def cat_file(
        self, path: str, start: Optional[int] = None, end: Optional[int] = None, **_: Any
    ) -> bytes:
        place = self._opened().path(self._strip_protocol(path))
        if start is None and end is None:
            return place.read_bytes()
        size = place.stat().st_size
        first = 0 if start is None else start if start >= 0 else max(size + start, 0)
        last = size if end is None else end if end >= 0 else size + end
        return place.read_bytes(first, max(last - first, 0))

    @_holding
    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: Any = None,
        autocommit: bool = True,
        cache_options: Any = None,
        **kwargs: Any,
    ) -> Any:
        path = self._strip_protocol(path)
        if mode == "rb":
            place = self._opened().path(path)
            if place.is_dir():
                raise IsADirectoryError(21, os.strerror(21), path)
            size = place.stat().st_size
            options = {"cache_options": cache_options, "size": size, **kwargs}
            return _Reader(self, path, mode, block_size or "default", **options)
        if mode not in ("wb", "ab", "xb"):
            raise NotImplementedError(f"mode {mode!r}")
        self._check_written()
        if mode == "xb" and self.exists(path):
            raise FileExistsError(17, os.strerror(17), path)
        return _Writer(self, path, mode, autocommit)

    def open(
        self,
        path: str,
        mode: str = "rb",
        block_size: Any = None,
        cache_options: Any = None,
        compression: Optional[str] = None,
        **kwargs: Any,
    ) -> Any:
        path = self._strip_protocol(path)
        if "r" in mode or ("b" in mode and compression is None):
            return super().open(path, mode, block_size, cache_options, compression, **kwargs)
        words = {key: kwargs.pop(key) for key in _TEXT if key in kwargs}
        binary = mode.replace("t", "").replace("b", "") + "b"
        writer = super().open(path, binary, block_size, cache_options, **kwargs)
        # What is above the writer tells it how a `with` block ended.
        file: Any = writer
        if compression is not None:
            compression = get_compression(path, compression)
        if compression is not None:
            file = _Compressed(writer, compr[compression](writer, mode=binary[0]))
        return file if "b" in mode else _Text(writer, file, words)

    @_holding
    def _check_written(self) -> None:
        if self._opened().mode != "r+":
            raise io.UnsupportedOperation(f"{self._opened().name} is only read")

    # Changes.

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        path = self._strip_protocol(path)
        if mode == "create" and self.exists(path):
            raise FileExistsError(17, os.strerror(17), path)
        with self._change() as change:
            _make_parent(change, path)
            change.write(path, value)

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        path = self._strip_protocol(path)
        if self.exists(path):
            raise FileExistsError(17, os.strerror(17), path)
        with self._change() as change:
            change.mkdir(path, parents=create_parents)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        path = self._strip_protocol(path)
        if self.isdir(path):
            if exist_ok:
                return
            raise FileExistsError(17, os.strerror(17), path)
        with self._change() as change:
            change.mkdir(path, parents=True)

    def rmdir(self, path: str) -> None:
        path = self._strip_protocol(path)
        if not self.isdir(path):
            raise NotADirectoryError(20, os.strerror(20), path)
        with self._change() as change:
            change.remove(path)

    def rm_file(self, path: str) -> None:
        with self._change() as change:
            change.remove(self._strip_protocol(path))

    _rm = rm_file

    def rm(self, path: Any, recursive: bool = False, maxdepth: Optional[int] = None) -> None:
        found = self._named(path)
        with self._change() as change:
            for name in found:
                if not name:
                    raise PermissionError(1, "the root directory stays", "/")
                if recursive and maxdepth is not None:
                    _remove(change, change.path(name), maxdepth)
                else:
                    change.remove(name, recursive=recursive)

    @_holding
    def _named(self, path: Any) -> list[str]:
        """The paths that words name, each of which may be a pattern."""
        found: list[str] = []
        for name in items(path):
            stripped = self._strip_protocol(name)
            if self._opened().path(stripped).exists(follow_symlinks=False):
                found.append(stripped)
            else:
                found += self.expand_path(name, recursive=False)
        return list(dict.fromkeys(found))

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        with self._change() as change:
            if change.path(path1).is_dir():
                change.mkdir(path2, parents=True, exist_ok=True)
                return
            if change.path(path2).is_dir():
                path2 = f"{path2}/{_last(path1)}"
            _make_parent(change, path2)
            change.write(path2, change.path(path1).read_bytes())

    def mv(
        self,
        path1: Any,
        path2: Any,
        recursive: bool = False,
        maxdepth: Optional[int] = None,
        **_: Any,
    ) -> None:
        """Renames, all in one transaction: a folder goes with all that is in it, whatever
        `recursive` says, and what goes to a folder that is there goes into it."""
        if maxdepth is not None:
            raise ValueError("maxdepth: what is moved goes whole")
        with self._change() as change:
            for one, to in self._moves(change, path1, path2):
                if not one:
                    raise PermissionError(1, "the root directory stays", "/")
                if f"{to}/".startswith(f"{one}/"):
                    if to == one:
                        continue
                    raise OSError(22, "a folder cannot go into itself", one, None, to)
                _make_parent(change, to)
                change.rename(one, to)

    def _moves(self, change: Transaction, path1: Any, path2: Any) -> Iterator[Tuple[str, str]]:
        """Old and new paths."""
        if isinstance(path2, list):
            yield from zip(map(self._strip_protocol, path1), map(self._strip_protocol, path2))
            return
        found, to = self._named(path1), self._strip_protocol(path2)
        is_folder = len(found) > 1 or stringify_path(path2).endswith("/")
        is_folder = is_folder or change.path(to).is_dir()
        for one in found:
            if one == to:
                continue
            yield one, (f"{to}/{_last(one)}".lstrip("/") if is_folder else to)

    def chmod(self, path: str, mode: int) -> None:
        """Gives the twelve lower bits of the mode."""
        with self._change() as change:
            change.chmod(self._strip_protocol(path), mode)

    def touch(self, path: str, truncate: bool = True, **_: Any) -> None:
        path = self._strip_protocol(path)
        with self._change() as change:
            if truncate or not change.path(path).exists():
                _make_parent(change, path)
                change.write(path, b"")


class _Change:
    """One transaction of the file system, alone among its threads."""

    def __init__(self, fs: ExtFileSystem) -> None:
        self.fs = fs

    def __enter__(self) -> Transaction:
        self.fs._check_written()
        self.fs._lock.acquire()
        self.hold = self.fs._held()
        self.hold.__enter__()
        try:
            self.change = self.fs._opened().transaction()
            return self.change.__enter__()
        except BaseException:
            self._let_go()
            raise

    def __exit__(self, *what: Any) -> None:
        try:
            self.change.__exit__(*what)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        try:
            self.hold.__exit__(None, None, None)
        finally:
            self.fs._lock.release()


def _last(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _remove(change: Transaction, path: Path, depth: int) -> None:
    """Removes what is so far below a path, and the path; symlinks are not followed."""
    if depth > 0 and path.is_dir(follow_symlinks=False):
        for below in path.iterdir():
            _remove(change, below, depth - 1)
    change.remove(path)


def _make_parent(change: Transaction, path: str) -> None:
    above = path.rpartition("/")[0]
    if above and not change.path(above).is_dir():
        change.mkdir(above, parents=True)


class _Reader(AbstractBufferedFile):  # type: ignore[misc]
    """A file that is read. The image is open while it is."""

    def __init__(self, fs: ExtFileSystem, *args: Any, **kwargs: Any) -> None:
        self._hold = contextlib.ExitStack()
        super().__init__(fs, *args, **kwargs)
        self._hold.enter_context(fs._held())

    def _fetch_range(self, start: int, end: int) -> bytes:
        with self.fs._held():
            return self.fs._opened().path(self.path).read_bytes(start, end - start)  # type: ignore

    def close(self) -> None:
        super().close()
        self._hold.close()


class _Writer(io.BufferedIOBase):
    """A file that is written beside the image, and goes into it whole when it is closed."""

    def __init__(self, fs: ExtFileSystem, path: str, mode: str, autocommit: bool) -> None:
        super().__init__()
        self.fs = fs
        self.path = path
        self.mode = mode
        self.autocommit = autocommit
        self._is_given_up = False
        self._spool = tempfile.SpooledTemporaryFile(max_size=16 << 20)
        if mode == "ab" and fs.exists(path):
            self._spool.write(fs.cat_file(path))

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def write(self, content: Any) -> int:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        content = as_bytes(content)
        self._spool.write(content)
        return len(content)

    def tell(self) -> int:
        return self._spool.tell()

    def __exit__(self, kind: Any, *what: Any) -> None:
        self.close() if kind is None else self.discard()

    def close(self) -> None:
        if self.closed:
            return
        if self._is_given_up or _block_failed():
            self.discard()
            return
        super().close()
        if self.autocommit:
            self.commit()

    def give_up(self) -> None:
        """Lets the next `close` forget it."""
        self._is_given_up = True

    def commit(self) -> None:
        """Brings it into the image."""
        self._spool.seek(0)
        with self._spool, self.fs._change() as change:
            _make_parent(change, self.path)
            change.write(self.path, self._spool)

    def discard(self) -> None:
        """Forgets it: what was not written whole is not written."""
        self._spool.close()
        super().close()


_TEXT = ("encoding", "errors", "newline")


class _Compressed(io.BufferedIOBase):
    """What compresses, over a writer."""

    def __init__(self, writer: _Writer, file: Any) -> None:
        super().__init__()
        self._writer = writer
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self._file.write(content)
        return memoryview(content).nbytes

    def __exit__(self, kind: Any, *what: Any) -> None:
        if kind is not None:
            self._writer.give_up()
        self.close()

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        try:
            self._file.close()
        except BaseException:
            self._writer.discard()
            raise
        self._writer.close()


class _Text(io.TextIOWrapper):
    """Text over a writer, or over what compresses."""

    def __init__(self, writer: _Writer, below: Any, words: dict[str, Any]) -> None:
        super().__init__(below, **words)
        self._writer = writer

    def __exit__(self, kind: Any, *what: Any) -> None:
        if kind is not None:
            self._writer.give_up()
        self.close()


def _block_failed() -> bool:
    """Whether a `with fsspec.open(..)` block ends by an exception: fsspec only closes its files
    then, and tells them nothing."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code is OpenFile.__exit__.__code__:
            what = frame.f_locals.get("args") or (None,)
            return what[0] is not None
        frame = frame.f_back  # type: ignore[assignment]
    return False
