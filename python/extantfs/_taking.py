"""Where an archive goes: a file that has its name only when it is whole, or a file object."""

from __future__ import annotations

import contextlib
import enum
import errno
import os
import secrets
import stat as stats
from typing import Any, Iterator, Optional, Tuple

from ._errors import InUseError

__all__ = ["Present", "written"]

Identity = Optional[Tuple[int, int]]
"""Device and inode number of an image's file, if it has one."""


class Present(enum.Enum):
    """What becomes of a file that is there already."""

    KEPT = "it is kept, which is an error"
    REPLACED = "it is replaced"


@contextlib.contextmanager
def written(target: Any, image: Identity, present: Present) -> Iterator[Any]:
    """What bytes are written to: a file object as it is; of a path a file beside it, which gets the
    name at the end. `image` is never written."""
    if hasattr(target, "write"):
        _refuse(_found(_descriptor(target)), image, getattr(target, "name", None))
        yield target
        return
    named = os.fspath(target)
    path = os.path.realpath(named)
    found = _found(path)
    _refuse(found, image, target)
    if present is Present.KEPT and os.path.lexists(named):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), named)
    if found is not None and not stats.S_ISREG(found.st_mode):
        # A pipe or a device stays what it is.
        with open(path, "wb", buffering=0) as file:
            yield file
        return
    with _beside(path, found, present) as file:
        yield file


@contextlib.contextmanager
def _beside(path: Any, old: Optional[os.stat_result], present: Present) -> Iterator[Any]:
    folder = os.path.dirname(path)
    name = f".archive-{secrets.token_hex(8)}.partial"
    partial = os.path.join(folder, os.fsencode(name) if isinstance(path, bytes) else name)
    with _named(path), open(partial, "xb", buffering=0) as file:
        try:
            if old is not None:
                with contextlib.suppress(OSError):
                    os.fchmod(file.fileno(), stats.S_IMODE(old.st_mode) & 0o777)
            yield file
            if present is Present.KEPT and os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            os.replace(partial, path)
        except BaseException:
            os.unlink(partial)
            raise


@contextlib.contextmanager
def _named(path: Any) -> Iterator[None]:
    """Errors are about the path, not about a name that nobody knows."""
    try:
        yield
    except OSError as error:
        name = error.filename
        if name is not None and os.fsdecode(name).endswith(".partial"):
            error.filename, error.filename2 = path, None
        raise


def _descriptor(target: Any) -> Any:
    try:
        return target.fileno()
    except (AttributeError, OSError):
        return None


def _found(place: Any) -> Optional[os.stat_result]:
    try:
        return None if place is None else os.stat(place)
    except FileNotFoundError:
        return None


def _refuse(found: Optional[os.stat_result], image: Identity, name: Any) -> None:
    if found is not None and (found.st_dev, found.st_ino) == image:
        words = "it is the image itself"
        if isinstance(name, (str, bytes, os.PathLike)):
            raise InUseError(errno.EBUSY, words, os.fspath(name))
        raise InUseError(errno.EBUSY, words)
