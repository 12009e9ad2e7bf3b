"""What the tests of sweeps have in common."""

from __future__ import annotations

import importlib
import os
import pathlib
import subprocess
import sys
import time
from typing import Any

import extantfs
import pytest

# A simulation that takes milliseconds.
SMALL = """name = "small"
seed = 7
memory = "4M"

[[drive]]
name = "disk"
model = "ide-2001-7200"

[[filesystem]]
name = "volume"
size = "16M"
profile = "ext2"
preset = "linux-2.4"

[[process]]
name = "worker"
steps = [
    { step = "create-files", at = "/files", count = 20, directories = 2, size = "8K" },
    { step = "read-all", at = "/", measure = "read" },
]
"""


def lab_runs(scenario: str, seeds: int, **more: Any) -> dict[str, Any]:
    """A matrix with one scenario and so many seeds."""
    over = {"seed": {"from": 1, "to": seeds}}
    return {"jobs": [{"kind": "lab run", "with": {"scenario": scenario}, "over": over, **more}]}


def fill(folder: pathlib.Path) -> None:
    """Puts a scenario, two images and a tree into a folder."""
    (folder / "small.toml").write_text(SMALL)
    (folder / "tree/sub").mkdir(parents=True)
    (folder / "tree/sub/file").write_text("content\n")
    for name, free in [("a.image", 4 << 20), ("b.image", 5 << 20)]:
        extantfs.build(folder / "tree", folder / name, free=free)
    # Until they are old enough for a stamp: two plans of files that were just made differ in it.
    time.sleep(0.2)


def mixed(seeds: int = 2) -> str:
    """A matrix with quick jobs of every form."""
    return f"""
[[jobs]]
kind = "lab run"
outputs = ["save"]
[jobs.over]
scenario = "small.toml"
drive = ["ide-2001-7200", "ssd-nvme"]
seed = {{ from = 1, to = {seeds} }}

[[jobs]]
kind = ["check", "layout"]
over = {{ image = {{ files = "*.image" }} }}

[[jobs]]
kind = "build"
over = {{ source = "tree", size = ["8M", "9M"], L = "made" }}
"""


def library(name: str) -> Any:
    """A library that heavy tests are run with; at the gate it has to be there."""
    if os.environ.get("CI") == "true":
        return importlib.import_module(name)
    return pytest.importorskip(name)


def command(*words: object, code: int = 0) -> bytes:
    """What the command prints."""
    called = [sys.executable, "-m", "extantfs", *map(str, words)]
    done = subprocess.run(called, capture_output=True)
    assert done.returncode == code, done.stderr.decode()
    return done.stdout


def kept(
    directory: str | os.PathLike[str], folders: tuple[str, ...] = ("results", "failed", "out")
) -> dict[str, bytes]:
    """All files below these folders of a directory, by name; one that is not whole fails."""
    found: dict[str, bytes] = {}
    for folder in folders:
        for path in pathlib.Path(directory, folder).rglob("*"):
            if path.is_file():
                assert not path.name.startswith("."), path
                found[str(path.relative_to(directory))] = path.read_bytes()
    return found
