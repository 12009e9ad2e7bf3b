"""Directories and images that are elsewhere: read and written through fsspec.

An image of a matrix whose name is an address, such as `s3://bucket/disk.img`, is fetched to
`CACHE/s3/bucket/disk.img`. The path is a part of the job, so the cache is at the same path on every
worker; each fetches for itself what it has not, and the command there verifies the digest.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import platform
import re
import tempfile
from typing import Any, Callable, Optional, Sequence, Tuple

__all__ = ["Directory", "Inputs", "default_cache", "is_address", "left_by", "partial_of"]

_NUMBERS = itertools.count()

# Stores that show an object only when all of it is there.
_WHOLE = {"abfs", "abfss", "az", "gcs", "gs", "memory", "oci", "oss", "r2", "s3", "s3a"}


def is_address(path: str) -> bool:
    """Whether a path is one of a store of fsspec."""
    return re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*(://|::)", path) is not None


def default_cache() -> str:
    """Where images are fetched to; the same path on every machine where TMPDIR is."""
    return os.path.join(tempfile.gettempdir(), f"extantfs-sweep-{os.getuid()}")


def _opened(address: str, options: dict[str, Any]) -> Tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ImportError(f"{address}: needs fsspec: pip install fsspec") from None
    fs, path = url_to_fs(address, **options)
    return fs, path


def host() -> str:
    """The name of this host, as a part of a file's name."""
    found = "".join(letter for letter in platform.node() if letter.isascii() and letter.isalnum())
    return found[:64] or "host"


def partial_of(path: str) -> str:
    """The path beside a path that a file has until it is whole: as the command names it, whose
    runs remove what a process of this host left that is gone."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{host()}-{os.getpid()}-{next(_NUMBERS)}.{name}"


def left_by(folder: str, process: int) -> None:
    """Removes what a process of this host that is gone left half written in a folder."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if name.startswith(".") and name.lstrip(".").startswith(f"{host()}-{process}-"):
            with contextlib.suppress(OSError):
                os.remove(os.path.join(folder, name))


class Inputs:
    """Images of stores, in a cache of this machine."""

    def __init__(self, cache: str, options: dict[str, Any]) -> None:
        self.cache = os.path.abspath(cache)
        self._options = options

    def fetched(self, address: str) -> str:
        """The path of an image of that address, fetched unless the copy there is the same. What
        names a partition (`disk.img@root`) stays with the path.

        Raises ValueError for an address that cannot be a path, OSError for one that cannot be read.
        """
        scheme, separator, rest = address.partition("://")
        if not separator or "::" in address:
            raise ValueError(f"{address}: a chain of addresses cannot be fetched as an image")
        parts = rest.split("/")
        if "" in parts or ".." in parts or "." in parts:
            raise ValueError(f"{address}: is no address of an image")
        if re.search(r"[*?\[\]{}]", rest):
            raise ValueError(f"{address}: name each image: patterns are those of folders here")
        fs, path = _opened(address, self._options)
        suffix = ""
        if "@" in parts[-1] and not fs.exists(path):
            suffix = "@" + parts[-1].partition("@")[2]
            path, rest = path[: -len(suffix)], rest[: -len(suffix)]
        info = fs.info(path)
        if info["type"] != "file":
            raise ValueError(f"{address}: is a folder; an image is one file")
        local = os.path.join(self.cache, scheme, *rest.split("/"))
        token = str(fs.ukey(path))
        if not os.path.exists(local) or self._token(local) != token:
            self._fetch(fs, path, local, token)
        return local + suffix

    def missing(self, path: str) -> bool:
        """Whether a path is one of the cache, and nothing is there."""
        return self.has(path) and not os.path.exists(path)

    def has(self, path: str) -> bool:
        """Whether a path is one of the cache."""
        return path.startswith(self.cache + os.sep)

    def fetch(self, path: str) -> None:
        """Fetches a path of the cache anew."""
        scheme, _, rest = os.path.relpath(path, self.cache).partition(os.sep)
        fs, remote = _opened(f"{scheme}://{rest}", self._options)
        self._fetch(fs, remote, path, str(fs.ukey(remote)))

    def _fetch(self, fs: Any, remote: str, local: str, token: str) -> None:
        folder = os.path.dirname(local)
        # What others could change is no cache.
        os.makedirs(self.cache, mode=0o700, exist_ok=True)
        if os.stat(self.cache).st_uid != os.getuid():
            raise PermissionError(f"{self.cache}: belongs to another user: name another cache")
        os.makedirs(folder, exist_ok=True)
        partial = partial_of(local)
        try:
            fs.get_file(remote, partial)
            os.replace(partial, local)
        finally:
            if os.path.exists(partial):
                os.remove(partial)
        with open(self._beside(local), "w", encoding="utf-8") as file:
            json.dump(token, file)

    def _token(self, local: str) -> Optional[str]:
        try:
            with open(self._beside(local), encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError):
            return None
        return found if isinstance(found, str) else None

    @staticmethod
    def _beside(local: str) -> str:
        folder, name = os.path.split(local)
        return os.path.join(folder, f".{name}.token")


class Directory:
    """The directory of a sweep: of the host, or of a store. Names in it are with `/`."""

    def __init__(self, address: str, options: Optional[dict[str, Any]] = None) -> None:
        self.address = address
        self.is_local = not is_address(address)
        self._options = dict(options or {})
        self._fs: Any = None
        self._root = address
        self._is_whole = False
        if not self.is_local:
            self._fs, self._root = _opened(address, self._options)
            protocols = self._fs.protocol
            protocols = {protocols} if isinstance(protocols, str) else set(protocols)
            self._is_whole = bool(protocols & _WHOLE)

    def path(self, name: str) -> str:
        """A name in it as a path of its file system."""
        return f"{self._root.rstrip('/')}/{name}"

    def shown(self, name: str) -> str:
        """The same as people write it."""
        return f"{self.address.rstrip('/')}/{name}"

    def read(self, name: str) -> bytes:
        """The bytes of a file; FileNotFoundError if there is none."""
        if self.is_local:
            with open(self.path(name), "rb") as file:
                return file.read()
        found: bytes = self._fs.cat_file(self.path(name))
        return found

    def read_all(self, names: Sequence[str]) -> list[bytes]:
        """The bytes of files of a store, which are asked for together."""
        paths = [self.path(name) for name in names]
        found = self._fs.cat(paths)
        # Stores give names back as they write them.
        by_name = {path.rpartition("/")[2]: content for path, content in found.items()}
        return [by_name[path.rpartition("/")[2]] for path in paths]

    def exists(self, name: str) -> bool:
        """Whether there is such a file, now."""
        if self.is_local:
            return os.path.exists(self.path(name))
        self._fs.invalidate_cache()
        return bool(self._fs.exists(self.path(name)))

    def write(self, name: str, content: bytes) -> None:
        """Writes a file whole, in place of one that is there."""
        path = self.path(name)
        if self.is_local:
            partial = partial_of(path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            try:
                with open(partial, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fdatasync(file.fileno())
                os.replace(partial, path)
            except OSError:
                if os.path.exists(partial):
                    os.remove(partial)
                raise
        elif self._is_whole:
            self._fs.pipe_file(path, content)
        else:
            self._moved(path, lambda partial: self._fs.pipe_file(partial, content))

    def put(self, local: str, name: str) -> None:
        """Copies a file of the host into it, whole."""
        path = self.path(name)
        if self._is_whole:
            self._fs.put_file(local, path)
        else:
            self._moved(path, lambda partial: self._fs.put_file(local, partial))

    def _moved(self, path: str, write: Callable[[str], object]) -> None:
        partial = partial_of(path)
        self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        write(partial)
        self._fs.mv(partial, path)

    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""
        try:
            os.remove(self.path(name)) if self.is_local else self._fs.rm_file(self.path(name))
        except FileNotFoundError:
            pass

    def ids(self, folder: str) -> set[str]:
        """The jobs that have a file below a folder, `results` or `failed`."""
        if self.is_local:
            names = (name for _, _, names in os.walk(self.path(folder)) for name in names)
        else:
            self._fs.invalidate_cache()
            names = (path.rpartition("/")[2] for path in self._fs.find(self.path(folder)))
        ends = (name[:-5] for name in names if name.endswith(".json") and name[0] != ".")
        return {name for name in ends if len(name) == 64}
