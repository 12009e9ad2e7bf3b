"""`python -m extantfs` is the command `extant`."""

from ._command import main

main()
