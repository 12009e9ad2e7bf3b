"""Changes that are whole or not at all."""

import io
import os
import stat

import extantfs
import pytest
from conftest import judged


def change(t):
    t.mkdir("/srv", 0o700)
    t.mkdir("/var/lib/one", parents=True)
    t.write("/srv/hello", "hello\n", mode=0o755, owner=(7, 8))
    t.write("/srv/stream", io.BytesIO(bytes(3 << 20)))
    t.symlink("hello", "/srv/link")
    t.link("/srv/hello", "/srv/again")
    t.rename("/etc/hostname", "/etc/host")
    t.chmod("/large", 0o640)
    t.chown("/large", 5, 6)
    t.utime("/large", ns=1_234_567_890_123_456_789)
    t.set_xattr("/large", "user.one", b"1")
    t.remove_xattr("/etc/passwd", "user.note")
    t.mknod("/srv/pipe", stat.S_IFIFO | 0o644)
    t.mknod("/srv/disk", stat.S_IFBLK | 0o600, os.makedev(8, 1))
    t.remove("/dir", recursive=True)
    t.remove("/etc/other")
    with t.open("/srv/text", "w", encoding="utf-8") as file:
        file.write("ä\n")


def test_all_of_it_is_there_after(disk):
    with extantfs.open(disk, "r+") as image:
        with image.transaction() as t:
            change(t)
            assert (image / "srv/hello").read_text() == "hello\n"
            assert (t / "srv/hello").exists()
        assert (image / "srv/hello").read_text() == "hello\n"
    judged(disk)
    with extantfs.open(disk) as image:
        found = (image / "srv/hello").stat()
        assert (found.st_uid, found.st_gid, found.st_mode) == (7, 8, 0o100755)
        assert found.st_nlink == 2
        assert (image / "srv").stat().st_mode == 0o040700
        assert (image / "srv/stream").read_bytes() == bytes(3 << 20)
        assert (image / "srv/link").read_text() == "hello\n"
        assert (image / "etc/host").read_text() == "extant\n"
        assert not (image / "etc/hostname").exists()
        large = (image / "large").stat()
        assert (large.st_uid, large.st_mode & 0o777) == (5, 0o640)
        assert large.st_mtime_ns == 1_234_567_890_123_456_789
        assert (image / "large").xattrs() == {"user.one": b"1"}
        assert (image / "etc/passwd").xattrs() == {}
        assert (image / "srv/pipe").is_fifo()
        assert (image / "srv/disk").stat().st_rdev == os.makedev(8, 1)
        assert not (image / "dir").exists() and (image / "var/lib/one").is_dir()
        assert (image / "srv/text").read_bytes() == "ä\n".encode()


def test_nothing_of_it_is_there_after_an_exception(disk, content):
    with extantfs.open(disk, "r+") as image:
        with pytest.raises(ZeroDivisionError):
            with image.transaction() as t:
                change(t)
                1 / 0
        assert (image / "etc/hostname").exists() and not (image / "srv").exists()
        with pytest.raises(ValueError, match="closed"):
            t.write("/late", b"")
        with image.transaction() as t:
            change(t)
            t.rollback()
    assert disk.read_bytes() == content


def test_bytes_are_changed_in_memory(content, tmp_path):
    with extantfs.open(content, "r+") as image:
        with image.transaction() as t:
            change(t)
        changed = image.getvalue()
    assert changed != content
    path = tmp_path / "changed.img"
    path.write_bytes(changed)
    judged(path)
    with extantfs.open(path) as image:
        assert (image / "srv/hello").exists()


def test_what_is_refused(disk):
    with extantfs.open(disk, "r") as image:
        with pytest.raises(io.UnsupportedOperation):
            image.transaction()
    with extantfs.open(disk, "r+") as image:
        with image.transaction() as t:
            with pytest.raises(FileExistsError):
                t.mkdir("/etc")
            t.mkdir("/etc", exist_ok=True)
            with pytest.raises(OSError):
                t.remove("/etc")
            with pytest.raises(FileNotFoundError):
                t.remove("/nothing")
            t.remove("/nothing", missing_ok=True)
            with pytest.raises(FileNotFoundError):
                t.write("/no/where", b"")
            with pytest.raises(OSError):
                t.mknod("/x", 0o644)
            with pytest.raises(ValueError):
                t.open("/x", "a")
            # One at a time.
            with pytest.raises(OSError, match="already"):
                image.transaction().__enter__()
        with (image / "large").open("rb"):
            with pytest.raises(OSError, match="files"):
                image.transaction().__enter__()
        with image.transaction() as t:
            t.write("/after", b"1")
        assert (image / "after").exists()


def test_who_writes_is_alone(disk):
    with extantfs.open(disk) as reader:
        with extantfs.open(disk, "r+") as image:
            with pytest.raises(extantfs.InUseError):
                image.transaction().__enter__()
            # It is as it was.
            assert (image / "etc/hostname").exists()
            reader.close()
            with image.transaction() as t:
                t.write("/new", b"")
                with pytest.raises(extantfs.InUseError):
                    extantfs.open(disk)


def test_an_image_that_is_removed(disk, content):
    with extantfs.open(disk, "r+") as image:
        disk.unlink()
        assert (image / "etc/hostname").read_text() == "extant\n"
        with pytest.raises(FileNotFoundError):
            image.transaction().__enter__()
        assert (image / "large").read_bytes(0, 1) == b"\0"
        disk.write_bytes(content)
    with extantfs.open(disk, "r+") as image:
        with pytest.raises(FileNotFoundError, match="removed or replaced"):
            with image.transaction() as t:
                t.write("/new", b"")
                disk.unlink()
                disk.write_bytes(content)
    assert disk.read_bytes() == content


def test_copies(disk, tmp_path, content):
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub" / "file").write_bytes(b"one")
    (tree / "link").symlink_to("sub/file")
    (tree / "sub" / "file").chmod(0o775)
    os.utime(tree / "sub" / "file", ns=(1, 10**18))
    with extantfs.open(disk, "r+") as image, extantfs.open(content) as other:
        with image.transaction() as t:
            assert t.copy(tree, "/tree").objects == 4
            t.copy(tree, "/etc", owner=(3, 4), preserve=True)
            t.copy(str(tree / "sub/file"), "/etc/file", mode=0o600)
            t.copy(other / "dir", "/again")
            t.copy(image / "etc/passwd", "/again")
            with pytest.raises(FileNotFoundError):
                t.copy(tree / "nothing", "/")
        assert (image / "tree/sub/file").stat().st_mode & 0o7777 == 0o755
        assert str((image / "tree/link").readlink()) == "sub/file"
        kept = (image / "etc/tree/sub/file").stat()
        assert (kept.st_uid, kept.st_mtime_ns, kept.st_mode & 0o777) == (3, 10**18, 0o775)
        assert (image / "etc/file").stat().st_mode & 0o777 == 0o600
        assert (image / "again/below/deep.txt").read_bytes() == b"deep"
        assert (image / "again/passwd").exists()
    judged(disk)
