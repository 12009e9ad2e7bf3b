"""What is in an image, as pathlib would tell it."""

import errno
import io
import os
import stat
from pathlib import PurePosixPath

import extantfs
import pytest
from conftest import NOW


def test_files_are_read(image):
    place = image / "etc" / "hostname"
    assert place.read_text() == "extant\n"
    assert place.read_bytes() == b"extant\n"
    assert (image / "etc/name").read_text() == "extant\n"
    assert image.path("/large").read_bytes() == bytes(range(256)) * 4000
    assert image.path("large").read_bytes(255, 3) == b"\xff\0\1"
    assert image.path("large").read_bytes(1_023_999, 100) == b"\xff"
    assert image.path("large").read_bytes(2_000_000, 100) == b""


def test_open_files_are_those_of_python(image):
    with (image / "large").open("rb") as file:
        assert isinstance(file, io.BufferedReader)
        assert file.read(3) == b"\0\1\2"
        assert file.seek(-1, os.SEEK_END) == 1_023_999
        assert file.read() == b"\xff"
        assert file.seek(256) == 256 and file.read(1) == b"\0"
        assert file.tell() == 257
        raw = file.raw
        assert raw.seek(10) == 10 and raw.seek(5, os.SEEK_CUR) == 15 and raw.read(1) == b"\x0f"
        with pytest.raises(ValueError):
            raw.seek(-20, os.SEEK_CUR)
        with pytest.raises(io.UnsupportedOperation):
            file.write(b"x")
    with pytest.raises(ValueError):
        file.read()
    with (image / "etc/passwd").open() as file:
        assert list(file) == ["root:x:0:0::/:/bin/sh\n"]
    with (image / "etc/passwd").open("rb", buffering=0) as file:
        assert file.readall().startswith(b"root")
    for mode in ["w", "r+", "a", "rbt", "x"]:
        with pytest.raises(ValueError):
            (image / "etc/passwd").open(mode)


def test_stat_is_that_of_os(image):
    found = (image / "etc/hostname").stat()
    assert isinstance(found, os.stat_result)
    assert stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o600
    assert (found.st_uid, found.st_gid, found.st_size, found.st_nlink) == (1000, 100, 7, 1)
    assert (found.st_mtime_ns, int(found.st_mtime), found[8]) == (NOW, NOW // 10**9, NOW // 10**9)
    assert found.st_blksize == 1024 and found.st_blocks > 0
    assert (image / "etc/other").stat().st_nlink == 2
    assert (image / "etc/other").samefile("/etc/passwd")
    assert stat.S_ISLNK((image / "etc/name").lstat().st_mode)
    assert stat.S_ISREG((image / "etc/name").stat().st_mode)
    device = (image / "dev/null").stat()
    assert stat.S_ISCHR(device.st_mode) and device.st_rdev == os.makedev(1, 3)


def test_questions(image):
    assert image.root.is_dir() and not image.root.is_file()
    assert (image / "etc/hostname").is_file()
    assert (image / "etc/name").is_symlink() and (image / "etc/name").is_file()
    assert not (image / "etc/name").is_file(follow_symlinks=False)
    assert (image / "run/pipe").is_fifo() and (image / "dev/null").is_char_device()
    for absent in ["nothing", "etc/nothing", "etc/hostname/below"]:
        assert not (image / absent).exists() and not (image / absent).is_dir()
    assert (image / "etc/name").readlink() == PurePosixPath("hostname")
    assert (image / "etc/passwd").xattrs() == {"user.note": b"kept\0"}
    assert (image / "etc/hostname").xattrs() == {}


def test_paths_are_those_of_pathlib(image):
    place = image.path("/dir/below/deep.txt")
    assert (place.name, place.stem, place.suffix) == ("deep.txt", "deep", ".txt")
    assert place.parent == image / "dir" / "below" and place.parents[-1] == image.root
    assert place.with_suffix(".md").read_bytes() == b"deeper"
    assert place.with_name("deep.md").exists()
    assert str(place) == place.as_posix() == "/dir/below/deep.txt"
    assert bytes(image.path(b"/\xff")) == b"/\xff"
    assert place.parts == ("/", "dir", "below", "deep.txt")
    assert place.relative_to("/dir") == PurePosixPath("below/deep.txt")
    assert place.is_relative_to(image / "dir") and place.match("*.txt")
    assert {place, image / "dir/below/deep.txt"} == {place}
    assert image / place == place and image.root.joinpath("dir", b"below") == place.parent
    assert image / "dir" < image / "etc"
    assert "deep.txt" in repr(place)


def test_trees_are_walked(image):
    assert [place.name for place in (image / "etc").iterdir()] == [
        "hostname",
        "name",
        "other",
        "passwd",
    ]
    found = [(str(here), folders, files) for here, folders, files in image.walk()]
    assert found[0][0] == "/" and found[0][1] == ["dev", "dir", "etc", "lost+found", "run"]
    assert found[0][2] == ["large", os.fsdecode(b"\xff\xfename")]
    assert ("/dir/below", [], ["deep.md", "deep.txt"]) in found
    assert sorted(found) == sorted(
        (str(here), folders, files) for here, folders, files in image.walk(top_down=False)
    )
    assert [str(here) for here, _, _ in image.walk(top_down=False)][-1] == "/"
    # What is taken out of the list is not entered.
    seen = []
    for here, folders, _ in image.walk():
        seen.append(str(here))
        folders[:] = [folder for folder in folders if folder in ("dir", "below")]
    assert seen == ["/", "/dir", "/dir/below"]
    errors = []
    assert list((image / "large").walk(on_error=errors.append)) == []
    assert isinstance(errors[0], NotADirectoryError)


def test_globs(image):
    def found(pattern):
        return sorted(str(place) for place in image.glob(pattern))

    assert found("etc/*name") == ["/etc/hostname", "/etc/name"]
    assert found("**/*.txt") == ["/dir/below/deep.txt"]
    assert found("*/below/deep.[mt]*") == ["/dir/below/deep.md", "/dir/below/deep.txt"]
    assert found("etc/nothing") == [] and found("large/*") == []
    assert found("dir/**") == ["/dir", "/dir/below"]
    assert found("etc/name") == ["/etc/name"]
    # Many ways lead to it.
    assert found("**/**/deep.txt") == ["/dir/below/deep.txt"]
    assert sorted(map(str, (image / "dir").rglob("*"))) == [
        "/dir/below",
        "/dir/below/deep.md",
        "/dir/below/deep.txt",
    ]
    with pytest.raises(ValueError):
        image.glob("")


def test_names_of_any_bytes(image):
    place = image / b"\xff\xfename"
    assert place.read_bytes() == b"bytes"
    assert place.name == os.fsdecode(b"\xff\xfename")
    assert image.path(place.name).read_bytes() == b"bytes"
    with pytest.raises(FileNotFoundError) as error:
        image.path(b"/\xfe").stat()
    assert os.fsencode(error.value.filename) == b"/\xfe"


def test_errors_are_those_of_the_host(image, tmp_path, content):
    with pytest.raises(FileNotFoundError) as error:
        (image / "nothing").read_bytes()
    assert (error.value.errno, error.value.filename) == (errno.ENOENT, "/nothing")
    with pytest.raises(IsADirectoryError):
        (image / "etc").read_bytes()
    with pytest.raises(NotADirectoryError):
        list((image / "large").iterdir())
    with pytest.raises(OSError):
        (image / "large").readlink()
    with pytest.raises(FileNotFoundError) as error:
        extantfs.open(tmp_path / "none.img")
    assert error.value.filename == str(tmp_path / "none.img")
    with pytest.raises(extantfs.NotAVolumeError) as error:
        extantfs.open(bytes(1 << 20))
    assert error.value.errno == errno.EINVAL and isinstance(error.value, OSError)
    with pytest.raises(TypeError):
        extantfs.open(7)
    with pytest.raises(ValueError):
        extantfs.open(content, "w")
    damaged = bytearray(content)
    damaged[0x400 + 104] ^= 0xFF
    with pytest.raises(extantfs.DamagedError) as error:
        extantfs.open(damaged)
    assert error.value.errno == errno.EUCLEAN


def test_bytes_are_an_image(content):
    with extantfs.open(content) as image:
        assert (image / "etc/hostname").read_text() == "extant\n"
        assert image.facts.label == "sample" and image.facts.block_size == 1024
        assert image.getvalue() == content
    with extantfs.open(memoryview(content)) as image:
        assert image.root.is_dir()


def test_a_closed_image_says_so(disk):
    image = extantfs.open(disk)
    file = (image / "large").open("rb")
    assert not image.closed and file.read(1) == b"\0"
    file.seek(500_000)
    image.close()
    image.close()
    assert image.closed
    for call in [
        lambda: image.root.stat(),
        lambda: (image / "large").read_bytes(),
        lambda: (image / "large").open(),
        lambda: image.check(),
        lambda: image.layout(),
        lambda: image.facts,
        lambda: file.read(100_000),
    ]:
        with pytest.raises(ValueError, match="closed"):
            call()
    file.close()


def test_reports(disk, image, content):
    report = image.check()
    assert report.is_clean and report.problems == () and report.inodes_used > 11
    damaged = bytearray(content)
    damaged[0x400 + 0x0C] ^= 0x11  # how many blocks are free
    report = extantfs.check(damaged)
    assert not report.is_clean and report.exit_code in (4, 12) or report.problems
    problem = report.problems[0]
    assert problem.code and problem.severity and problem.code in str(problem)
    with pytest.raises(AttributeError):
        problem.code = "other"
    assert extantfs.check(bytes(1 << 20)).exit_code == 8
    assert extantfs.check(disk).is_clean
    layout = image.layout()
    assert layout.files == 6 and layout.layout_score is not None
    assert layout.details["files"] == layout.files


def test_progress_is_told(image, tmp_path):
    told = []
    image.tar(tmp_path / "all.tar", progress=lambda done, total: told.append((done, total)))
    assert told and told[-1][0] > 1_000_000
    with pytest.raises(ZeroDivisionError):
        image.tar(tmp_path / "other.tar", progress=lambda done, total: 1 // 0)
    assert not (tmp_path / "other.tar").exists()


def test_partitions(content, tmp_path):
    path = tmp_path / "whole.img"
    path.write_bytes(bytes(1 << 20) + content)
    for words in [
        {"source": f"{path}@@1M"},
        {"source": path, "offset": 1 << 20},
    ]:
        with extantfs.open(**words) as image:
            assert (image / "etc/hostname").read_text() == "extant\n"
    with pytest.raises(FileNotFoundError):
        extantfs.open(f"{path}@root")
    with pytest.raises(OSError):
        extantfs.open(f"{path}@@what")
