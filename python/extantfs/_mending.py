"""Images that are mended, that this is taken back, that are made ready for use, and that get another
size."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Iterable, Optional, Tuple, Union, overload

from . import _native
from ._image import Source, _placed, _wishes
from ._path import Place
from ._reports import Healed, Normalized, Repaired, Resized, Trimmed, Tuned

__all__ = ["heal", "normalize", "repack", "repair", "resize", "trim", "tune", "undo"]

SCOPES = ("preen", "safe", "all")


def repair(
    source: Source,
    *,
    scope: str = "safe",
    dry_run: bool = False,
    undo: bool = True,
    partition: Optional[str] = None,
    offset: Optional[int] = None,
    journal: Optional[Place] = None,
    time: Optional[int] = None,
) -> Repaired:
    """Mends an image, in memory first, checked again until nothing is left, and writes it as one
    change: a power cut leaves it as it was or mended.

    The scope `safe` mends all that loses no byte of a file, no name and no attribute; `all` mends
    everything, and says what is lost; `preen` what `e2fsck -p` does, and writes nothing if that is
    not all. With `dry_run` nothing is written in any case: the result says what would be mended and
    lost. What was there before is kept beside the image for `extantfs.undo`, unless `undo` is
    False. Of an image that is bytes the mended ones are in the result, and nothing is kept.

    Of `open`'s wishes there are partition, offset, journal and time. Raises OSError's kin:
    NotAVolumeError, InUseError, UnsupportedError for what cannot be mended, and others; nothing was
    written then. ValueError for a scope that there is not.
    """
    if scope not in SCOPES:
        raise ValueError(f"scope {scope!r}: there are preen, safe and all")
    kind, place, _ = _placed(source)
    wishes = _wishes(partition=partition, offset=offset, journal=journal, time=time)
    how = "dry" if dry_run else "keep" if undo else "discard"
    found, kept, image = _native.repair(kind, place, wishes, scope, how)
    return Repaired._of(json.loads(found), _decoded(kept), image)


def undo(
    source: Source,
    *,
    partition: Optional[str] = None,
    offset: Optional[int] = None,
    journal: Optional[Place] = None,
) -> int:
    """Takes the last repair of an image back: its blocks are to the byte what they were. Returns
    how many those are, 0 where they were already.

    Raises OSError where there is no repair to undo, or the image was changed since, and what
    `repair` raises."""
    kind, place, _ = _placed(source)
    wishes = _wishes(partition=partition, offset=offset, journal=journal)
    return _native.undo(kind, place, wishes)


@overload
def heal(
    source: Union[list[Source], Tuple[Source, ...]],
    *,
    check: bool = False,
    undo: bool = False,
    partition: Optional[str] = None,
    offset: Optional[int] = None,
    journal: Optional[Place] = None,
    time: Optional[int] = None,
) -> Tuple[Healed, ...]: ...
@overload
def heal(
    source: Source,
    *,
    check: bool = False,
    undo: bool = False,
    partition: Optional[str] = None,
    offset: Optional[int] = None,
    journal: Optional[Place] = None,
    time: Optional[int] = None,
) -> Healed: ...
def heal(
    source: Any,
    *,
    check: bool = False,
    undo: bool = False,
    partition: Optional[str] = None,
    offset: Optional[int] = None,
    journal: Optional[Place] = None,
    time: Optional[int] = None,
) -> Any:
    """Makes an image ready for use, before a machine boots from it, say: nothing is done to one
    that is clean; one that was not unmounted is recovered; one that there is a reason to doubt, or
    any with `check`, is checked, and mended as by `repair` with the scope `safe`. With `undo` what
    was there before is kept for `extantfs.undo`; it is in any case where a damaged log is given up.

    A list or tuple of images is healed at once, and gives a tuple in its order: one that fails
    keeps no other from being healed, and has the state `failed` and its `error`. A single image
    raises it, as `repair` does. The wishes are those of `repair`, the same for all images.
    """
    wishes = _wishes(partition=partition, offset=offset, journal=journal, time=time)
    words = ("always" if check else "doubted", "keep" if undo else "discard")
    if not isinstance(source, (list, tuple)):
        return _healed(_placed(source), wishes, words)
    return _all([_placed(one) for one in source], wishes, words)


def resize(
    source: Source,
    size: Union[int, str],
    *,
    dry_run: bool = False,
    partition: Optional[str] = None,
    offset: Optional[int] = None,
    time: Optional[int] = None,
) -> Resized:
    """Gives an image another size, in place, as one change: a power cut leaves it as it was or as it
    is to be.

    The size is a number of bytes at most, "min" for the least that it can have, or "max" for as much
    as its partition or file has. A file that ends with the volume becomes longer or shorter with it;
    a partition stays as it is. What waits in the journal and orphans are brought to an end before.
    With `dry_run` nothing is written: the result says what would be done. Of an image that is bytes
    the other ones are in the result.

    Of `open`'s wishes there are partition, offset and time. Raises OSError's kin: DamagedError for
    an image that is not clean, OSError with ENOSPC where its files need more or where it is in has
    no room, and what `repair` raises; nothing was written then. ValueError for a size that is none.
    """
    if isinstance(size, str) and size not in ("min", "max") or isinstance(size, bool):
        raise ValueError(f"size {size!r}: it is a number of bytes, or min or max")
    if not isinstance(size, str) and not 0 <= size < 1 << 64:
        raise ValueError(f"size {size}: no image has that many bytes")
    kind, place, _ = _placed(source)
    wishes = _wishes(partition=partition, offset=offset, time=time)
    found, image = _native.resize(kind, place, wishes, size, "dry" if dry_run else "")
    return Resized(image=image, **json.loads(found))


def trim(
    source: Source,
    *,
    scrub: bool = False,
    dry_run: bool = False,
    partition: Optional[str] = None,
    offset: Optional[int] = None,
    time: Optional[int] = None,
) -> Trimmed:
    """Makes holes of the free blocks of an image, as a whole check counts them. With `scrub` blocks in
    use are cleaned too of what was deleted: names, inodes, attributes, ends of files, the journal.

    What waits in the journal and orphans are brought to an end before; what is kept of an earlier
    repair goes. With `dry_run` nothing is written: the result says what would be done. Of an image
    that is bytes the other ones are in the result.

    Of `open`'s wishes there are partition, offset and time. Raises OSError's kin: DamagedError for
    an image that is not clean, and what `repair` raises; nothing was written then.
    """
    kind, place, _ = _placed(source)
    wishes = _wishes(partition=partition, offset=offset, time=time)
    words = ("stale" if scrub else "nothing", "dry" if dry_run else "")
    found, image = _native.trim(kind, place, wishes, words)
    return Trimmed(image=image, **json.loads(found))


def normalize(
    source: Source,
    out: Union[str, "os.PathLike[str]"],
    *,
    partition: Optional[str] = None,
    offset: Optional[int] = None,
) -> Normalized:
    """Writes a volume to a new file, laid out anew with its own options: what `build` made comes out
    byte for byte if its files are as they were, whatever mounted it meanwhile.

    The file holds the volume alone, and must not be there. Raises OSError's kin: DamagedError for an
    image that is not clean, FileExistsError, and OSError for what no build makes; nothing was
    written then.
    """
    return _remade(source, (out, None), partition, offset)


def repack(
    source: Source,
    out: Union[str, "os.PathLike[str]"],
    *,
    first: Iterable[Union[str, "os.PathLike[str]"]] = (),
    partition: Optional[str] = None,
    offset: Optional[int] = None,
) -> Normalized:
    """Writes a volume to a new file, laid out anew, with what is at the paths `first` in front:
    inodes, directories and data, in that order. Paths lead through symlinks; what is not there is
    passed over.

    The file holds the volume alone, and must not be there. Raises what `normalize` raises.
    """
    return _remade(source, (out, [os.fspath(path) for path in first]), partition, offset)


def _remade(
    source: Source,
    words: Tuple[Union[str, "os.PathLike[str]"], Optional[list[str]]],
    partition: Optional[str],
    offset: Optional[int],
) -> Normalized:
    kind, place, _ = _placed(source)
    wishes = _wishes(partition=partition, offset=offset)
    out, first = words
    found = json.loads(_native.remake(kind, place, wishes, (os.fspath(out), first)))
    return Normalized(**{**found, "warnings": tuple(found["warnings"])})


def tune(
    source: Source,
    *words: str,
    label: Optional[str] = None,
    uuid: Optional[str] = None,
    features: Optional[str] = None,
    journal: Union[bool, str, None] = None,
    quota: Optional[str] = None,
    mount_options: Optional[str] = None,
    extended: Optional[str] = None,
    reserved_percent: Optional[float] = None,
    errors: Optional[str] = None,
    dry_run: bool = False,
    partition: Optional[str] = None,
    offset: Optional[int] = None,
    time: Optional[int] = None,
) -> Tuned:
    """Changes what a volume says of itself and has of its own, in place, as one change: a power cut
    leaves it as it was or as it is to be.

    `words` are those of tune2fs, letters and values apart: `"-c", "5"`. The wishes are the usual
    ones of them, as tune2fs spells their values: features="metadata_csum,^huge_file", uuid="random",
    quota="usrquota"; `journal` is True for one of the usual size, False for none, or words as
    "size=64". What is in the superblock alone takes milliseconds; before and after the rest the
    volume is checked. With `dry_run` nothing is written. Of an image that is bytes the other ones
    are in the result.

    Of `open`'s wishes there are partition, offset and time. Raises OSError's kin: DamagedError for
    an image that is not clean, UnsupportedError for what it cannot have, and what `repair` raises;
    nothing was written then. OSError with EINVAL for words that say nothing.
    """
    asked = list(words)
    wanted = [
        ("-L", label),
        ("-U", uuid),
        ("-O", features),
        ("-O", "^has_journal" if journal is False else None),
        ("-J", journal if isinstance(journal, str) else None),
        ("-Q", quota),
        ("-o", mount_options),
        ("-E", extended),
        ("-m", None if reserved_percent is None else str(reserved_percent)),
        ("-e", errors),
    ]
    for letter, value in wanted:
        if value is not None:
            asked += [letter, value]
    if journal is True:
        asked.append("-j")
    kind, place, _ = _placed(source)
    wishes = _wishes(partition=partition, offset=offset, time=time)
    found, image = _native.tune(kind, place, wishes, asked, "dry" if dry_run else "")
    facts = json.loads(found)
    changes = tuple((what, before, after) for what, before, after in facts["changes"])
    return Tuned(changes=changes, blocks=facts["blocks"], image=image)


def _all(
    placed: Iterable[Tuple[str, Any, str]], wishes: dict[str, Any], words: Tuple[str, str]
) -> Tuple[Healed, ...]:
    def one(image: Tuple[str, Any, str]) -> Healed:
        try:
            return _healed(image, wishes, words)
        except OSError as error:
            return Healed(name=image[2], state="failed", exit_code=8, error=error)

    with ThreadPoolExecutor(os.cpu_count(), "extantfs heal") as threads:
        futures = [threads.submit(one, image) for image in placed]
        try:
            return tuple(future.result() for future in futures)
        except BaseException:
            # Those that are at work end; no other begins.
            threads.shutdown(wait=False, cancel_futures=True)
            raise


def _healed(
    image: Tuple[str, Any, str], wishes: dict[str, Any], words: Tuple[str, str]
) -> Healed:
    kind, place, name = image
    found, kept, changed = _native.heal(kind, place, wishes, *words)
    return Healed._of(name, json.loads(found), _decoded(kept), changed)


def _decoded(path: Optional[bytes]) -> Optional[str]:
    return None if path is None else os.fsdecode(path)
