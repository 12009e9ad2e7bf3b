"""The command that comes with the package."""

import os
import pathlib
import subprocess
import sys

import extantfs
import pytest
from conftest import needed

EXTANT = pathlib.Path(sys.executable).parent / "extant"


def run(*words, **options):
    return subprocess.run([EXTANT, *map(str, words)], capture_output=True, text=True, **options)


def test_it_is_the_whole_command(disk, tmp_path):
    done = run("cat", f"{disk}:/etc/hostname")
    assert (done.returncode, done.stdout, done.stderr) == (0, "extant\n", "")
    assert run("check", disk).returncode == 0
    assert "clean" in run("check", disk).stdout
    done = run("cat", f"{disk}:/nothing")
    assert done.returncode == 1 and "nothing" in done.stderr and done.stdout == ""
    assert run("what").returncode == 2
    assert run("--version").stdout.split()[-1] == extantfs.__version__
    assert "lab" in run("--help").stdout
    assert run("--as", "e2label", disk).stdout == "sample\n"
    done = subprocess.run(
        [sys.executable, "-m", "extantfs", "ls", f"{disk}:/etc"], capture_output=True, text=True
    )
    assert done.returncode == 0 and "hostname" in done.stdout


def test_names_lead_to_it(disk, tmp_path):
    assert run("names", tmp_path).returncode == 0
    label = subprocess.run([tmp_path / "e2label", disk], capture_output=True, text=True)
    assert label.stdout == "sample\n", label.stderr


def test_a_pipe_that_is_closed(disk):
    words = f"'{EXTANT}' tar '{disk}' | head -c 10 > /dev/null; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True)
    assert done.stdout == "141\n" and done.stderr == ""


def test_a_mount(disk, tmp_path):
    if not os.path.exists("/dev/fuse") or os.geteuid() != 0:
        if os.environ.get("CI") == "true":
            pytest.fail("no /dev/fuse")
        pytest.skip("no /dev/fuse")
    needed("fusermount3")
    folder = tmp_path / "mnt"
    folder.mkdir()
    done = run("mount", disk, folder, cwd="/")
    assert done.returncode == 0, done.stderr
    try:
        assert (folder / "etc/hostname").read_text() == "extant\n"
        (folder / "new").write_text("new\n")
    finally:
        done = run("umount", folder)
    assert done.returncode == 0, done.stderr
    with extantfs.open(disk) as image:
        assert (image / "new").read_text() == "new\n" and image.check().is_clean
    # One in the foreground, beside a program.
    done = run("mount", disk, folder, "--", "cat", folder / "new")
    assert (done.returncode, done.stdout) == (0, "new\n"), done.stderr
