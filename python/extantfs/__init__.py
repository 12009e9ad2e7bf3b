"""ext2, ext3 and ext4 images: read, built, changed, checked and
mended, without root and without a mount.

    import extantfs

    with extantfs.open("disk.img@root") as image:
        print((image / "etc" / "hostname").read_text())

`docs/PYTHON.md` of the project has more.
"""

from ._build import Entry, build
from ._errors import (
    DamagedError,
    InUseError,
    NeedsCheckError,
    NotAVolumeError,
    SweepError,
    UnsupportedError,
)
from ._image import Image, check, open
from ._mending import heal, normalize, repack, repair, resize, trim, tune, undo
from ._native import __version__
from ._path import Path
from ._reports import (
    Built,
    Change,
    Copied,
    Difference,
    Facts,
    Healed,
    Layout,
    Normalized,
    Problem,
    Repaired,
    Resized,
    Report,
    Taken,
    Trimmed,
    Tuned,
)
from ._sweep import Sweep, SweepFailure, SweepJob, SweepResult, sweep
from ._transaction import Transaction

__all__ = [
    "Built",
    "Change",
    "Copied",
    "DamagedError",
    "Difference",
    "Entry",
    "Facts",
    "Healed",
    "Image",
    "InUseError",
    "Layout",
    "NeedsCheckError",
    "Normalized",
    "NotAVolumeError",
    "Path",
    "Problem",
    "Repaired",
    "Resized",
    "Report",
    "Sweep",
    "SweepError",
    "SweepFailure",
    "SweepJob",
    "SweepResult",
    "Taken",
    "Transaction",
    "Trimmed",
    "Tuned",
    "UnsupportedError",
    "__version__",
    "build",
    "check",
    "heal",
    "normalize",
    "repack",
    "open",
    "repair",
    "resize",
    "sweep",
    "trim",
    "tune",
    "undo",
]

