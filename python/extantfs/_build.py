"""Images that are built."""

from __future__ import annotations

import dataclasses
import os
import uuid as uuids
from typing import IO, Any, Iterable, Iterator, Mapping, Optional, Tuple, Union

from . import _native
from ._files import as_bytes
from ._image import Progress
from ._path import items
from ._reports import Built

__all__ = ["Entry", "build"]


@dataclasses.dataclass(frozen=True)
class Entry:
    """A file of an image that is built.

    Without anything else it is a directory; with `content` a regular file, which may be a file
    object of bytes; with `symlink` a symlink to that target; with `link` another name of a file
    that came before; with `kind` fifo, character device or block device (`device` are its
    numbers)."""

    path: Union[str, bytes, "os.PathLike[str]"]
    content: Union[bytes, str, IO[bytes], None] = None
    symlink: Union[str, bytes, None] = None
    link: Union[str, bytes, None] = None
    kind: Optional[str] = None
    device: Tuple[int, int] = (0, 0)
    mode: Optional[int] = None
    owner: Optional[Tuple[int, int]] = None
    time_ns: Optional[int] = None
    xattrs: Mapping[str, bytes] = dataclasses.field(default_factory=dict)

    def _row(self) -> Tuple[bytes, str, Any, dict[str, Any]]:
        facts: dict[str, Any] = {}
        if self.mode is not None:
            facts["mode"] = self.mode
        if self.owner is not None:
            facts["owner"] = self.owner
        if self.time_ns is not None:
            facts["time"] = self.time_ns
        if self.xattrs:
            facts["xattrs"] = {
                os.fsencode(name): as_bytes(value) for name, value in self.xattrs.items()
            }
        said = [self.content, self.symlink, self.link, self.kind]
        if sum(one is not None for one in said) > 1:
            raise ValueError(f"{self.path!r}: content, symlink, link and kind exclude each other")
        path = os.fsencode(self.path)
        if self.symlink is not None:
            return path, "symlink", os.fsencode(self.symlink), facts
        if self.link is not None:
            return path, "link", os.fsencode(self.link), facts
        if self.kind is not None:
            return path, self.kind, self.device, facts
        if self.content is None:
            return path, "directory", None, facts
        if hasattr(self.content, "read"):
            return path, "stream", self.content, facts
        if isinstance(self.content, str):
            return path, "file", self.content.encode(), facts
        return path, "file", as_bytes(self.content), facts


Sources = Union[
    str,
    bytes,
    "os.PathLike[str]",
    Entry,
    Iterable[Union[str, bytes, "os.PathLike[str]", Entry]],
    None,
]


def build(
    source: Sources,
    target: Union[str, bytes, "os.PathLike[str]", None] = None,
    *,
    profile: str = "ext4",
    free: Optional[int] = None,
    size: Optional[int] = None,
    block_size: Optional[int] = None,
    label: Optional[str] = None,
    uuid: Union[str, bytes, uuids.UUID, None] = None,
    owner: Optional[Tuple[int, int]] = None,
    newest: Optional[int] = None,
    exclude: Union[str, Iterable[str]] = (),
    replace: bool = False,
    progress: Optional[Progress] = None,
) -> Built:
    """Builds an image, without root: the same bytes for the same content.

    `source` is a folder, an archive (tar, cpio newc, a Debian package, compressed or not), a
    container image (`oci:DIR[:TAG]`, `oci-archive:FILE[:TAG]`, `docker-archive:FILE[:TAG]`), an
    `Entry`, or any iterable of these: later ones are laid over earlier ones. Entries are asked for
    one after the other, and may come from a generator. None is an empty volume.

    `target` is a path, whose file has its name only when it is whole; without one the bytes are in
    `Built.image`. The image is exactly as large as its content needs; `free` asks for room besides,
    in bytes, `size` for a length whatever the content needs.
    """
    wishes: dict[str, Any] = {
        "profile": profile,
        "free": free,
        "size": size,
        "block_size": block_size,
        "label": label,
        "uuid": None if uuid is None else _uuid(uuid),
        "owner": owner,
        "newest": newest,
        "exclude": items(exclude) or None,
        "replace": replace or None,
    }
    wishes = {key: value for key, value in wishes.items() if value is not None}
    if free is not None and size is not None:
        raise ValueError("free and size exclude each other")
    builder = _native.Builder(wishes)
    _add(builder, source)
    path = None if target is None else os.fsencode(target)
    return Built._parse(*builder.build(path, progress))


def _add(builder: _native.Builder, source: Sources) -> None:
    if source is None:
        return
    if isinstance(source, (str, bytes, os.PathLike)):
        _add_path(builder, os.fsencode(source))
        return
    if isinstance(source, Entry):
        source = (source,)
    if not hasattr(source, "__iter__"):
        raise TypeError(f"a source is a path, an Entry, or an iterable of them, not {source!r}")
    rest = iter(source)
    for first in rest:
        if isinstance(first, Entry):
            # Those that follow each other are one source; what comes after them is kept.
            entries = _Entries(first, rest)
            builder.entries(entries)
            if entries.after is not None:
                _add_path(builder, os.fsencode(entries.after))
        else:
            _add_path(builder, os.fsencode(first))


class _Entries:
    """Entries up to the first thing that is none."""

    def __init__(self, first: Entry, rest: Iterator[Any]) -> None:
        self.first = first
        self.rest = rest
        self.after: Any = None

    def __iter__(self) -> Iterator[Tuple[bytes, str, Any, dict[str, Any]]]:
        yield self.first._row()
        for entry in self.rest:
            if not isinstance(entry, Entry):
                self.after = entry
                return
            yield entry._row()


_CONTAINERS = (b"oci", b"oci-archive", b"docker-archive")


def _add_path(builder: _native.Builder, word: bytes) -> None:
    form, colon, rest = word.partition(b":")
    if not colon or form not in _CONTAINERS:
        builder.source(word)
        return
    if not rest:
        raise ValueError(f"{os.fsdecode(word)}: a path is missing")
    path, tag = _path_and_tag(rest)
    builder.container(form.decode(), path, tag)


def _path_and_tag(rest: bytes) -> Tuple[bytes, Optional[str]]:
    """Both may have colons: the longest path that is there counts, else the first colon."""
    if os.path.lexists(rest) or b":" not in rest:
        return rest, None
    cuts = [at for at in range(len(rest)) if rest[at : at + 1] == b":"]
    cut = next((at for at in reversed(cuts) if os.path.lexists(rest[:at])), cuts[0])
    return rest[:cut], os.fsdecode(rest[cut + 1 :])


def _uuid(uuid: Union[str, bytes, uuids.UUID]) -> list[int]:
    if isinstance(uuid, bytes):
        uuid = uuids.UUID(bytes=uuid)
    elif isinstance(uuid, str):
        uuid = uuids.UUID(uuid)
    return list(uuid.bytes)
