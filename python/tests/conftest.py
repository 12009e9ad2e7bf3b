"""What all tests have: an image with a bit of everything, and others that judge."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import extantfs
import pytest
from extantfs import Entry

NOW = 1_700_000_000 * 10**9


def entries():
    """A tree with a bit of everything."""
    yield Entry("/etc", mode=0o750)
    yield Entry("/etc/hostname", "extant\n", mode=0o600, owner=(1000, 100), time_ns=NOW)
    yield Entry("/etc/name", symlink="hostname")
    yield Entry("/etc/passwd", "root:x:0:0::/:/bin/sh\n", xattrs={"user.note": b"kept\0"})
    yield Entry("/etc/other", link="/etc/passwd")
    yield Entry("/dir/below/deep.txt", b"deep")
    yield Entry("/dir/below/deep.md", b"deeper")
    yield Entry("/large", bytes(range(256)) * 4000)
    yield Entry("/dev/null", kind="character device", device=(1, 3), mode=0o666)
    yield Entry("/run/pipe", kind="fifo")
    yield Entry(b"/\xff\xfename", b"bytes")


@pytest.fixture(scope="session")
def content() -> bytes:
    """The bytes of an image of that tree, with a journal."""
    found = extantfs.build(entries(), free=8 << 20, block_size=1024, label="sample").image
    assert found is not None
    return found


@pytest.fixture
def disk(content: bytes, tmp_path: pathlib.Path) -> pathlib.Path:
    """The same as a file."""
    path = tmp_path / "disk.img"
    path.write_bytes(content)
    return path


@pytest.fixture
def image(disk: pathlib.Path):
    """The file, open for reading."""
    with extantfs.open(disk) as image:
        yield image


def needed(name: str) -> str:
    """A program of the host; without it the test is left out, but fails at the gate."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{name} is not installed")
        pytest.skip(f"no {name}")
    return found


def judged(path: os.PathLike[str]) -> None:
    """e2fsck finds nothing."""
    words = [needed("e2fsck"), "-fn", os.fspath(path)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of fsspec's many patterns one in eight is tried each time, all with what is heavy."""
    edges = [item for item in items if "glob_edge_cases" in item.name]
    for at, item in enumerate(edges):
        if at % 8 != 0:
            item.add_marker(pytest.mark.heavy)
