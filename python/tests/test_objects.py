"""Images on file objects, also on those that fail or lie."""

import errno
import io
import threading

import extantfs
import pytest


def test_a_file_object_is_an_image(content, disk):
    with extantfs.open(io.BytesIO(content)) as image:
        assert (image / "etc/hostname").read_text() == "extant\n"
        assert image.check().is_clean and image.layout().files == 6
    with open(disk, "rb") as file, extantfs.open(file) as image:
        assert (image / "large").read_bytes() == bytes(range(256)) * 4000
        assert image.name == str(disk)


def test_an_object_needs_read_and_seek_alone(content):
    class Bare:
        def __init__(self):
            self.read, self.seek = (inner := io.BytesIO(content)).read, inner.seek

    class Silent(Bare):
        """One whose `seek` says nothing, as its `tell` does in its place."""

        def __init__(self, has_tell):
            inner = io.BytesIO(content)
            self.read, self.seek = inner.read, lambda *place: inner.seek(*place) and None
            if has_tell:
                self.tell = inner.tell

    for source in [Bare(), Silent(True)]:
        with extantfs.open(source) as image:
            assert (image / "etc/hostname").read_text() == "extant\n"
    with pytest.raises(OSError, match="neither seek nor tell"):
        extantfs.open(Silent(False))


def test_a_file_object_is_written(content):
    memory = io.BytesIO(content)
    with extantfs.open(memory, "r+") as image:
        with image.transaction() as t:
            t.write("/new", b"new")
        assert (image / "new").read_bytes() == b"new"
    with extantfs.open(memory.getvalue()) as image:
        assert (image / "new").read_bytes() == b"new" and image.check().is_clean


def test_an_image_in_an_image(content):
    outer = extantfs.build([extantfs.Entry("/inner.img", content)]).image
    with extantfs.open(outer) as image, (image / "inner.img").open("rb") as file:
        with extantfs.open(file) as inner:
            assert (inner / "etc/hostname").read_text() == "extant\n"


class Lying(io.BytesIO):
    """A file object that may do wrong."""

    fault = None

    def read(self, length=-1):
        if self.fault is not None:
            return self.fault(length)
        return super().read(length)


def raising(error):
    def fault(length):
        raise error

    return fault


def test_file_objects_that_fail(content):
    cases = [
        (raising(ZeroDivisionError("here")), OSError, ZeroDivisionError),
        (raising(OSError(110, "late")), OSError, OSError),
        (lambda length: b"", OSError, OSError),
        (lambda length: None, OSError, OSError),
        (lambda length: "text", OSError, TypeError),
        (lambda length: bytes(length + 1), OSError, OSError),
        (raising(KeyboardInterrupt()), KeyboardInterrupt, None),
    ]
    for fault, raised, cause in cases:
        memory = Lying(content)
        image = extantfs.open(memory)
        memory.fault = fault
        with pytest.raises(raised) as error:
            (image / "large").read_bytes()
        if cause is not None:
            assert isinstance(error.value.__cause__, cause), error.value.__cause__
        # It goes on when the object does.
        memory.fault = None
        assert (image / "large").read_bytes() == bytes(range(256)) * 4000
        image.close()


def test_file_objects_that_return_little(content):
    memory = Lying(content)
    memory.fault = lambda length: io.BytesIO.read(memory, min(length, 7))
    with extantfs.open(memory) as image:
        assert (image / "large").read_bytes() == bytes(range(256)) * 4000


class Longer(io.BytesIO):
    """A file object that says that it is longer, or shorter, than it is."""

    more = 0

    def tell(self):
        return super().tell() + self.more


def test_file_objects_that_lie_about_their_size(content):
    # Bytes after the end are asked for by nobody until a file is there.
    longer = Longer(content)
    longer.more = 1 << 20
    with extantfs.open(longer) as image:
        assert (image / "etc/hostname").read_text() == "extant\n"
    shorter = Longer(content)
    shorter.more = -len(content) // 2
    with pytest.raises(OSError):
        with extantfs.open(shorter) as image:
            for here, _, names in image.walk():
                for name in names:
                    if (here / name).is_file():
                        (here / name).read_bytes()
    cut = Longer(content[: 256 << 10])
    cut.more = len(content) - (256 << 10)
    with pytest.raises(OSError):
        with extantfs.open(cut) as image:
            for here, _, names in image.walk():
                for name in names:
                    if (here / name).is_file():
                        (here / name).read_bytes()
            assert image.check().is_clean
    negative = Longer(b"")
    negative.more = -1
    with pytest.raises(OSError):
        extantfs.open(negative)


def test_a_file_object_that_reads_its_own_image(content):
    memory = Lying(content)
    image = extantfs.open(memory)
    seen = []

    def fault(length):
        try:
            (image / "large").read_bytes()
        except OSError as error:
            seen.append(error)
        return io.BytesIO.read(memory, length)

    memory.fault = fault
    assert (image / "etc/passwd").read_bytes().startswith(b"root")
    assert seen and {error.errno for error in seen} == {errno.EDEADLK}
    image.close()


def test_a_device_that_fails_in_a_commit(content):
    class Broken(io.BytesIO):
        left = 10**9

        def write(self, some):
            if self.left <= 0:
                raise OSError(5, "worn out")
            self.left -= 1
            return super().write(some)

    memory = Broken(content)
    with extantfs.open(memory, "r+") as image:
        with pytest.raises(OSError):
            with image.transaction() as t:
                t.write("/new", b"new")
                memory.left = 0
        assert not (image / "new").exists() or image.closed
    assert memory.getvalue() == content


def test_threads_read_one_object(content):
    wrong = []
    with extantfs.open(io.BytesIO(content), cache_bytes=4 << 20) as image:

        def read():
            for _ in range(20):
                if (image / "large").read_bytes() != bytes(range(256)) * 4000:
                    wrong.append(1)

        threads = [threading.Thread(target=read) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert wrong == []
