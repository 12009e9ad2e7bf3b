"""Archives, folders, differences."""

import io
import os
import tarfile
import time

import extantfs
import pytest


def test_an_archive(image, tmp_path):
    taken = image.tar(tmp_path / "all.tar")
    assert taken.files == 6 and taken.symlinks == 1 and taken.hard_links == 1
    with tarfile.open(tmp_path / "all.tar") as archive:
        assert archive.extractfile("etc/hostname").read() == b"extant\n"
        assert archive.getmember("etc/hostname").uid == 1000
    with pytest.raises(FileExistsError):
        image.tar(tmp_path / "all.tar")
    image.tar(tmp_path / "all.tar", ["/etc"], replace=True)
    with tarfile.open(tmp_path / "all.tar") as archive:
        assert "large" not in archive.getnames()
    memory = io.BytesIO()
    image.tar(memory, [image / "dir"])
    memory.seek(0)
    with tarfile.open(fileobj=memory) as archive:
        assert "dir/below/deep.txt" in archive.getnames()
    with pytest.raises(FileNotFoundError):
        image.tar(tmp_path / "none.tar", ["/nothing"])
    assert not (tmp_path / "none.tar").exists()


class Full(io.RawIOBase):
    """A file that takes no more."""

    def writable(self):
        return True

    def write(self, content):
        raise OSError(28, "full")


def test_an_output_that_fails(image):
    with pytest.raises(OSError) as error:
        image.tar(Full())
    assert error.value.errno == 28
    assert isinstance(error.value.__cause__, OSError)


class SlowOutput(io.RawIOBase):
    """A file that takes its time."""

    taken = 0

    def writable(self):
        return True

    def write(self, content):
        time.sleep(0.1)
        self.taken += len(content)
        return len(content)


def test_work_that_is_not_wanted_ends():
    entries = [extantfs.Entry(f"/{at}", b"x" * (256 << 10)) for at in range(80)]
    content = extantfs.build(entries).image
    output = SlowOutput()

    def refuse(done, total):
        raise ZeroDivisionError

    with extantfs.open(content) as image:
        with pytest.raises(ZeroDivisionError):
            image.tar(output, progress=refuse)
    assert 0 < output.taken < 20 << 20


def test_a_folder(image, tmp_path):
    taken = image.extract(tmp_path / "out", ["/etc", "/dir"])
    assert taken.files == 4
    assert (tmp_path / "out/etc/hostname").read_text() == "extant\n"
    assert os.readlink(tmp_path / "out/etc/name") == "hostname"
    assert (tmp_path / "out/dir/below/deep.txt").read_bytes() == b"deep"
    with pytest.raises(OSError):
        image.extract(tmp_path / "out", ["/etc"])
    image.extract(tmp_path / "out", ["/etc"], replace=True)


def test_differences(disk, image, content, tmp_path):
    with extantfs.open(content, "r+") as other:
        assert image.diff(other) == []
        with other.transaction() as t:
            t.write("/etc/new", b"")
            t.chmod("/etc/passwd", 0o600)
            t.remove("/etc/other")
            t.write("/dir/below/deep.txt", b"deeP")
        found = image.diff(other, ignore=["times", "links"])
        assert [(one.path, one.kind, one.a, one.b) for one in found] == [
            ("/dir/below/deep.txt", "content", 3, None),
            ("/etc/new", "added", None, "file"),
            ("/etc/other", "removed", "file", None),
            ("/etc/passwd", "mode", 0o644, 0o600),
        ]
        below = image.diff(other, path="/dir", other_path="/dir", ignore=["times"])
        assert [one.path for one in below] == ["/below/deep.txt"]
        assert image.diff(other, ignore=["times", "links"], exclude=["etc", "deep.txt"]) == []
    image.tar(tmp_path / "all.tar")
    assert image.diff(tmp_path / "all.tar", ignore=["nanoseconds"]) == []
    with pytest.raises(OSError):
        image.diff(tmp_path / "all.tar", ignore=["what"])
    with pytest.raises(ValueError, match="closed"):
        image.diff(other)
