"""Images through fsspec: by address, chained, written, and by fsspec's own suites."""

import io
import os
import pickle

import extantfs
import pytest
from conftest import judged

fsspec = pytest.importorskip("fsspec")

from extantfs.fsspec import ExtFileSystem  # noqa: E402
from fsspec.tests import abstract  # noqa: E402


@pytest.fixture
def fs(disk):
    fs = fsspec.filesystem("ext4", fo=str(disk), skip_instance_cache=True)
    yield fs
    fs.close()


def test_the_protocols_are_known(disk):
    for protocol in ["ext2", "ext3", "ext4"]:
        assert fsspec.get_filesystem_class(protocol) is ExtFileSystem
        with fsspec.open(f"{protocol}://etc/hostname", "rb", fo=str(disk)) as file:
            assert file.read() == b"extant\n"
    with pytest.raises(ValueError, match="fo is missing"):
        fsspec.filesystem("ext4")


def test_addresses_are_chained(disk, tmp_path):
    words = f"ext4://etc/hostname::file://{disk}"
    with fsspec.open(words, "rt") as file:
        assert file.read() == "extant\n"
    options = {"simplecache": {"cache_storage": str(tmp_path / "cache")}}
    with fsspec.open(f"ext4://large::simplecache::file://{disk}", "rb", **options) as file:
        file.seek(1000)
        assert file.read(2) == bytes([1000 % 256, 1001 % 256])
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/disk.img", disk.read_bytes())
    with fsspec.open("ext4://etc/hostname::memory://disk.img", "rb") as file:
        assert file.read() == b"extant\n"
    fs, path = fsspec.core.url_to_fs("ext4://etc::memory://disk.img")
    assert path == "etc" and "etc/passwd" in fs.ls(path, detail=False)
    with pytest.raises(io.UnsupportedOperation):
        fs.pipe_file("new", b"")
    fs.close()
    memory.rm("/disk.img")


def test_what_is_told(fs):
    assert fs.ls("", detail=False) == [
        "dev",
        "dir",
        "etc",
        "large",
        "lost+found",
        "run",
        os.fsdecode(b"\xff\xfename"),
    ]
    found = fs.info("etc/hostname")
    assert (found["type"], found["size"], found["uid"]) == ("file", 7, 1000)
    assert fs.info("ext4://etc")["type"] == "directory" and fs.info("/")["type"] == "directory"
    assert fs.info("etc/name")["destination"] == "hostname" and fs.info("etc/name")["size"] == 7
    assert fs.find("dir") == ["dir/below/deep.md", "dir/below/deep.txt"]
    assert fs.glob("dir/*/*.txt") == ["dir/below/deep.txt"]
    assert fs.cat_file("large", 255, 257) == b"\xff\0"
    assert fs.cat_file("large", -1) == b"\xff" and fs.cat_file("large", 0, -1023999) == b"\0"
    assert fs.modified("etc/hostname").year == 2023
    assert fs.du("dir") == 10
    with pytest.raises(FileNotFoundError):
        fs.info("nothing")
    with pytest.raises(FileNotFoundError):
        fs.open("nothing")
    with pytest.raises(IsADirectoryError):
        fs.open("etc")
    with fs.open("large") as file:
        assert file.read(2) == b"\0\1" and file.seek(-1, 2) and file.read() == b"\xff"


def test_each_file_is_a_transaction(fs, disk):
    with fs.open("new/deep/file", "wb") as file:
        file.write(b"one")
        assert not fs.exists("new")
    assert fs.cat_file("new/deep/file") == b"one"
    with fs.open("new/deep/file", "ab") as file:
        file.write(b"two")
    assert fs.cat_file("new/deep/file") == b"onetwo"
    with pytest.raises(ZeroDivisionError):
        with fs.open("new/deep/file", "wb") as file:
            file.write(b"lost")
            1 / 0
    assert fs.cat_file("new/deep/file") == b"onetwo"
    with pytest.raises(FileExistsError):
        fs.open("new/deep/file", "xb")
    with fs.open("text", "w") as file:
        file.write("words")
    fs.mv("text", "etc/text")
    fs.touch("empty")
    fs.chmod("empty", 0o600)
    fs.rm("dir", recursive=True)
    fs.rm_file("large")
    with pytest.raises(OSError):
        fs.rmdir("etc")
    fs.close()
    judged(disk)
    with extantfs.open(disk) as image:
        assert (image / "etc/text").read_text() == "words"
        assert (image / "empty").stat().st_mode & 0o777 == 0o600
        assert not (image / "dir").exists() and not (image / "large").exists()


def test_one_that_is_only_read(disk):
    fs = fsspec.filesystem("ext4", fo=str(disk), mode="r")
    for call in [
        lambda: fs.open("x", "wb"),
        lambda: fs.pipe_file("x", b""),
        lambda: fs.mkdir("x"),
        lambda: fs.rm("etc", recursive=True),
    ]:
        with pytest.raises(OSError):
            call()
    fs.close()


def test_others_change_it_between_two_calls(disk):
    address = f"ext4://etc/hostname::file://{disk}"

    def change(content):
        with extantfs.open(disk, "r+") as image:
            with image.transaction() as t:
                t.write("/etc/hostname", content)

    with fsspec.open(address, "rb") as file:
        assert file.read(1) == b"e"
        with pytest.raises(extantfs.InUseError):
            change("never")
        # One of two files that are open.
        with fsspec.open(address, "rb") as other:
            assert other.read() == b"extant\n"
        with pytest.raises(extantfs.InUseError):
            change("never")
    change("first\n")
    fs, path = fsspec.core.url_to_fs(address)
    assert fs.cat_file(path) == b"first\n" and fs.exists(path) and len(fs.find("etc")) == 4
    change("second\n")
    with pytest.raises(FileNotFoundError):
        fs.open("nothing")
    fs.pipe_file(path, b"third\n")
    change("fourth\n")
    with fsspec.open(address, "wb") as file:
        file.write(b"fifth\n")
    change("sixth\n")
    # Who asks for the image itself keeps it.
    assert fs.image.path(path).read_text() == "sixth\n" and fs.exists(path)
    with pytest.raises(extantfs.InUseError):
        change("never")
    fs.close()
    change("seventh\n")
    assert fs.cat_file(path) == b"seventh\n"


def test_it_is_sent_to_other_processes(fs):
    other = pickle.loads(pickle.dumps(fs))
    assert other.cat_file("etc/hostname") == b"extant\n"


def test_a_child_opens_it_anew(fs):
    assert fs.exists("etc")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, fs.cat_file("etc/hostname"))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() == "extant\n"
    os.waitpid(child, 0)


def kinds(disk):
    with extantfs.open(disk) as image:
        found = {}
        for folder, names, others in image.walk():
            for name in [*names, *others]:
                path = folder / name
                stat = path.lstat()
                found[str(path)] = (stat.st_mode, stat.st_uid, stat.st_size)
        return found


def test_what_is_moved_goes_whole(fs, disk):
    with fs.image.transaction() as t:
        t.chown("/dir/below/deep.txt", 7, 8)
        t.chmod("/dir/below", 0o700)
        t.symlink("nowhere", "/dir/below/link")
    before = kinds(disk)
    for to in ["dir/below/in", "dir/in", "dir/below"]:
        with pytest.raises(OSError):
            fs.mv("dir", to, recursive=True)
        assert kinds(disk) == before
    with pytest.raises(ValueError):
        fs.mv("dir", "other", recursive=True, maxdepth=1)
    fs.mv("dir", "dir")
    fs.mv("dir", "moved", recursive=True)
    moved = {path.replace("/dir", "/moved", 1): facts for path, facts in before.items()}
    assert kinds(disk) == moved
    fs.mv("moved", "etc")
    assert fs.isfile("etc/moved/below/deep.txt")
    fs.mv("etc/moved/below/deep.*", "new/")
    assert fs.ls("new", detail=False) == ["new/deep.md", "new/deep.txt"]
    fs.mv(["new/deep.md", "new/deep.txt"], "run")
    fs.mv("run/deep.md", "etc")
    fs.cp("etc/deep.md", "run")
    fs.cp_file("etc/hostname", "run")
    assert fs.ls("run", detail=False) == [
        "run/deep.md",
        "run/deep.txt",
        "run/hostname",
        "run/pipe",
    ]
    with pytest.raises(FileNotFoundError):
        fs.mv("nothing", "x")
    fs.close()
    judged(disk)


def test_trees_are_not_left_by_links(fs, disk, tmp_path):
    with fs.image.transaction() as t:
        t.mkdir("/d/in", parents=True)
        t.mkdir("/outside")
        t.write("/outside/precious", b"precious")
        t.symlink("../outside", "/d/toout")
        t.symlink("../../etc/hostname", "/d/in/file")
    assert fs.find("d") == ["d/in/file", "d/toout"]
    assert [folder for folder, _, _ in fs.walk("d")] == ["d", "d/in"]
    assert fs.du("d") == 7
    assert fs.isdir("d/toout") and fs.ls("d/toout", detail=False) == ["d/toout/precious"]
    fs.get("d", str(tmp_path / "got"), recursive=True)
    assert not (tmp_path / "got/toout/precious").exists()
    assert (tmp_path / "got/in/file").read_bytes() == b"extant\n"
    with pytest.raises(OSError):
        fs.rm("d", recursive=True, maxdepth=0)
    assert fs.exists("d/in/file")
    fs.rm("d", recursive=True, maxdepth=5)
    assert not fs.exists("d") and fs.cat_file("outside/precious") == b"precious"
    with fs.image.transaction() as t:
        t.symlink("outside", "/toout")
    fs.rm("toout", recursive=True, maxdepth=5)
    assert not fs.exists("toout") and fs.exists("outside/precious")


@pytest.mark.parametrize("mode", ["wb", "wt", "ab"])
@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("opened_by", ["address", "file system"])
def test_a_block_that_raises_writes_nothing(fs, disk, mode, compression, opened_by):
    def opened():
        if opened_by == "file system":
            return fs.open("half", mode, compression=compression)
        return fsspec.open(f"ext4://half::file://{disk}", mode, compression=compression)

    # Who only reads keeps others from writing.
    fs.close()
    half = "HALF" if mode == "wt" else b"HALF"
    with pytest.raises(ZeroDivisionError):
        with opened() as file:
            file.write(half)
            1 / 0
    del file
    assert not fs.exists("half")
    fs.close()
    try:
        1 / 0
    except ZeroDivisionError:
        # What is handled already is no reason.
        with opened() as file:
            file.write(half)
    fs.close()
    found = fsspec.open(f"ext4://half::file://{disk}", "rb", compression=compression)
    with found as file:
        assert file.read() == b"HALF"


def test_unknown_words_are_refused(disk, fs):
    with pytest.raises(TypeError, match="patition"):
        fsspec.filesystem("ext4", fo=str(disk), patition="1")
    with pytest.raises(TypeError):
        fs.pipe_file("number", 5)
    with fs.open("number", "wb") as file, pytest.raises(TypeError):
        file.write(5)


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture(scope="class")
    def fs(self, tmp_path_factory):
        path = tmp_path_factory.mktemp("suites") / "disk.img"
        extantfs.build(None, path, free=32 << 20)
        fs = fsspec.filesystem("ext4", fo=str(path), skip_instance_cache=True)
        fs.mkdir("suite")
        yield fs
        fs.close()
        judged(path)

    @pytest.fixture
    def fs_path(self):
        return "suite"


class TestCopy(abstract.AbstractCopyTests, Fixtures):
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):
    pass


class TestOpen(getattr(abstract, "AbstractOpenTests", object), Fixtures):
    pass


class TestPipe(getattr(abstract, "AbstractPipeTests", object), Fixtures):
    pass
