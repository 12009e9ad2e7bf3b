"""What would be wrong without a word: refused, or as it was."""

import errno
import io
import os
import stat as stats
import threading

import extantfs
import pytest
from conftest import judged
from extantfs import Entry


def test_the_image_itself_is_no_target(disk, tmp_path):
    before = disk.read_bytes()
    (tmp_path / "link").symlink_to(disk)
    os.link(disk, tmp_path / "other")
    with extantfs.open(disk) as image:
        for name in ["disk.img", "link", "other"]:
            with pytest.raises(extantfs.InUseError) as refused:
                image.tar(tmp_path / name, replace=True)
            assert refused.value.errno == errno.EBUSY and name in str(refused.value.filename)
        with open(disk, "r+b") as file, pytest.raises(extantfs.InUseError):
            image.tar(file)
    with open(disk, "rb") as file, extantfs.open(file) as image:
        with pytest.raises(extantfs.InUseError):
            image.tar(disk, replace=True)
    assert disk.read_bytes() == before


def test_an_older_archive_stays_until_the_new_one_is_whole(image, tmp_path):
    kept = tmp_path / "keep.tar"
    kept.write_bytes(b"kept")
    kept.chmod(0o640)
    with pytest.raises(FileNotFoundError):
        image.tar(kept, ["/nonexistent"], replace=True)
    with pytest.raises(FileExistsError):
        image.tar(kept)
    assert kept.read_bytes() == b"kept"
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(FileExistsError):
        image.tar(tmp_path / "dangling")
    image.tar(kept, "/etc", replace=True)
    assert kept.stat().st_size > 512 and stats.S_IMODE(kept.stat().st_mode) == 0o640
    image.tar(os.fsencode(tmp_path / "new.tar"))
    image.tar("/dev/null", replace=True)
    assert stats.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(FileNotFoundError) as missing:
        image.tar(tmp_path / "no/folder.tar")
    assert missing.value.filename == str(tmp_path / "no/folder.tar")
    names = ["dangling", "disk.img", "keep.tar", "new.tar"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_one_item_is_no_list_of_letters(image, tmp_path):
    taken = image.tar(tmp_path / "etc.tar", "/etc")
    assert taken.directories == 1
    assert image.extract(tmp_path / "out", image / "etc").directories == 1
    image.tar(tmp_path / "all.tar")
    assert image.diff(tmp_path / "all.tar", exclude="*.md", ignore="times") == []
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ["a.pyc", "p", "y"]:
        (folder / name).write_bytes(b"")
    built = extantfs.build(folder, exclude="*.pyc").image
    with extantfs.open(built) as other:
        names = [path.name for path in other.iterdir()]
    assert names == ["lost+found", "p", "y"]


def test_a_number_is_no_content(content):
    with extantfs.open(content, "r+") as image, image.transaction() as t:
        for call in [
            lambda: t.write("/number", 5),
            lambda: t.set_xattr("/etc/passwd", "user.x", 5),
            lambda: t.open("/raw", "wb", buffering=0).write(5),
        ]:
            with pytest.raises(TypeError):
                call()
        t.write("/view", memoryview(b"abcdef")[::2])
        assert (image / "view").read_bytes() == b"ace"
    for entry in [Entry("/a", 5), Entry("/a", b"", xattrs={"user.x": 5})]:
        with pytest.raises(TypeError):
            extantfs.build(entry)


def test_unknown_words_are_refused(disk):
    for call in [
        lambda: extantfs.check(disk, patition="1"),
        lambda: extantfs.open(disk, patition="1"),
    ]:
        with pytest.raises(TypeError, match="patition"):
            call()


def test_long_work_is_refused_while_the_image_is_changed(content, tmp_path):
    with extantfs.open(content, "r+") as image, extantfs.open(content) as other:
        with image.transaction() as t:
            t.write("/new", b"new")
            for call in [
                image.check,
                image.layout,
                lambda: image.tar(tmp_path / "a.tar"),
                lambda: image.extract(tmp_path / "out"),
                lambda: image.diff(other),
                lambda: other.diff(image),
            ]:
                with pytest.raises(OSError, match="a transaction of the image is open") as busy:
                    call()
                assert busy.value.errno == errno.EBUSY
        assert image.check().is_clean
        assert [one.path for one in other.diff(image, ignore="times")] == ["/new"]
    assert list(tmp_path.iterdir()) == []


def test_numbers_that_the_format_cannot_hold(content):
    with extantfs.open(content, "r+") as image, image.transaction() as t:
        for major, minor in [(4096, 0), (0, 1 << 20)]:
            with pytest.raises(OSError) as refused:
                t.mknod("/node", stats.S_IFCHR | 0o600, os.makedev(major, minor))
            assert refused.value.errno == errno.EINVAL
            with pytest.raises(OSError):
                extantfs.build(Entry("/node", kind="block device", device=(major, minor)))
        t.mknod("/node", stats.S_IFCHR | 0o600, os.makedev(4095, (1 << 20) - 1))
        assert not (image / "node2").exists()
        assert (image / "node").stat().st_rdev == os.makedev(4095, (1 << 20) - 1)


def test_times_are_the_nearest_that_the_format_holds(content, tmp_path):
    last = ((1 << 34) - (1 << 31) - 1) * 10**9
    for given, kept in [(10**30, last), (-(10**30), -(1 << 31) * 10**9)]:
        built = extantfs.build(Entry("/a", b"", time_ns=given)).image
        with extantfs.open(built, "r+") as image:
            assert (image / "a").stat().st_mtime_ns // 10**9 == kept // 10**9
            with image.transaction() as t:
                t.utime("/a", ns=given)
            assert (image / "a").stat().st_mtime_ns // 10**9 == kept // 10**9


class Slow(io.RawIOBase):
    """It does not wait, and has nothing yet."""

    def __init__(self):
        self.pieces = [b"half", None, b"rest", b""]

    def read(self, size=-1):
        return self.pieces.pop(0)


def test_nothing_yet_is_not_the_end(content):
    with extantfs.open(content, "r+") as image:
        with pytest.raises(BlockingIOError):
            with image.transaction() as t:
                t.write("/slow", Slow())
        assert not (image / "slow").exists()
    with pytest.raises(OSError, match="slow: ") as refused:
        extantfs.build(Entry("/slow", Slow()))
    assert isinstance(refused.value.__cause__, BlockingIOError)


def test_an_image_stays_open_where_nobody_may_write(disk):
    with extantfs.open(disk, "r+") as image, extantfs.open(disk):
        with pytest.raises(extantfs.InUseError):
            with image.transaction():
                pass
        assert not image.closed and (image / "etc/hostname").read_bytes() == b"extant\n"


def test_an_image_that_others_took_comes_back(disk):
    """What is there instead for a while can be neither changed nor read."""
    aside = disk.with_name("aside.img")
    with extantfs.open(disk, "r+") as image:
        disk.rename(aside)
        disk.write_bytes(bytes(1 << 20))
        with pytest.raises(extantfs.NotAVolumeError):
            with image.transaction():
                pass
        with pytest.raises(extantfs.NotAVolumeError):
            (image / "etc/hostname").read_bytes()
        assert not image.closed
        aside.rename(disk)
        assert (image / "etc/hostname").read_bytes() == b"extant\n"
        with image.transaction() as t:
            t.write("/new", b"new")
    assert image.closed
    judged(disk)


def test_paths_have_one_root(image):
    assert image.path("//etc") == image.path("/etc") == image.root / "etc"
    assert image.path("///etc/hostname").read_text() == "extant\n"
    assert [path.name for path in (image / "etc").glob("*/")] == []
    assert {path.name for path in image.glob("*/")} == {"dev", "dir", "etc", "lost+found", "run"}


def test_a_transaction_is_seen_by_its_own_image_alone(disk):
    seen = []
    with extantfs.open(disk, "r+") as image, image.transaction() as t:
        t.write("/new", b"new")
        reader = threading.Thread(target=lambda: seen.append((image / "new").exists()))
        reader.start()
        reader.join()
    assert seen == [True]
    judged(disk)
