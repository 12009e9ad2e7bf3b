"""The command `extant`, as it comes with the package."""

from __future__ import annotations

import os
import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Runs the command with the words of this process, and ends it with the command's code."""
    from . import _native

    # Signals are the command's own: Python would only note them.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Its server and its errands are processes of it, which find this package where it is found now.
    again = f"import sys; sys.path[:] = {sys.path!r}; from extantfs._command import main; main()"
    called = os.path.abspath(sys.argv[0])
    name = "extant" if sys.argv[0] in ("-c", "-m", "") else sys.argv[0]
    if os.path.basename(name) == "__main__.py":
        name = "extant"
    words = [name, *sys.argv[1:]]
    code = _native.main(words, sys.executable, ["-c", again], called)
    sys.stdout.flush()
    # Threads of the command may be waiting for nothing.
    os._exit(code)
