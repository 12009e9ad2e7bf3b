"""Errors that the interpreter has no class for. Those of volumes are OSError's kin, with its
fields."""

from __future__ import annotations

__all__ = [
    "DamagedError",
    "InUseError",
    "LabError",
    "NeedsCheckError",
    "NotAVolumeError",
    "SweepError",
    "UnsupportedError",
]


class NotAVolumeError(OSError):
    """The bytes are no ext2, ext3 or ext4 volume (EINVAL)."""


class DamagedError(OSError):
    """Something on the volume, in its journal or in an archive is damaged (EUCLEAN)."""


class NeedsCheckError(OSError):
    """The volume has errors, or was not closed: it is to be checked before it is written
    (EUCLEAN)."""


class UnsupportedError(OSError):
    """The volume has a feature, or the image a form, with which this cannot be done
    (EOPNOTSUPP)."""


class InUseError(OSError):
    """The image is mounted, or open elsewhere, and one of the two writes (EBUSY)."""


class LabError(RuntimeError):
    """An experiment of the laboratory did not come to its end: a step failed, a volume was too
    small, processes waited for each other."""


class SweepError(RuntimeError):
    """A sweep cannot go on: a worker does not have the command, or has another version of it, or
    does not see the directory. What is done is kept."""
