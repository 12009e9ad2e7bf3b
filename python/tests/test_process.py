"""Threads, children, signals, memory."""

import gc
import io
import os
import resource
import signal
import subprocess
import sys
import threading
import time

import extantfs
import pytest


def test_an_image_that_is_closed_under_threads(disk):
    for _ in range(10):
        image = extantfs.open(disk)
        said = []

        def read():
            try:
                while True:
                    assert (image / "large").read_bytes(0, 1000)[:2] == b"\0\1"
                    list((image / "etc").iterdir())
            except ValueError as error:
                said.append(str(error))

        threads = [threading.Thread(target=read) for _ in range(4)]
        [thread.start() for thread in threads]
        time.sleep(0.005)
        image.close()
        [thread.join() for thread in threads]
        assert said == ["I/O operation on closed image"] * 4


def test_threads_that_begin_transactions(disk):
    with extantfs.open(disk, "r+") as image:
        refused = []

        def work(number):
            for at in range(5):
                while True:
                    try:
                        with image.transaction() as t:
                            t.write(f"/{number}-{at}", b"x")
                        break
                    except OSError as error:
                        refused.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert sum(1 for _ in image.glob("[0-9]-[0-9]")) == 15
        assert image.check().is_clean


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_gets_one_clear_error(disk):
    with extantfs.open(disk, "r+") as image:
        file = (image / "large").open("rb", buffering=0)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            # Whatever happens, it does not go on with the tests.
            try:
                os.write(writing, heard(image, file, disk).encode())
                del image, file
                gc.collect()
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            assert pipe.read() == "forked " * 8 + "extant"
        assert os.waitpid(child, 0)[1] == 0
        file.close()
        with image.transaction() as t:
            t.write("/after", b"")
        assert image.check().is_clean


def heard(image, file, disk):
    """What a child hears of calls on an image of its parent, and of one that it opened itself."""
    said = []
    for call in [
        lambda: image.root.stat(),
        lambda: image.check(),
        lambda: image.layout(),
        lambda: image.facts,
        lambda: image.closed,
        lambda: file.read(1),
        lambda: image.transaction().__enter__(),
        lambda: image.close(),
    ]:
        try:
            call()
            said.append("nothing")
        except RuntimeError as error:
            said.append("forked" if "forked" in str(error) else str(error))
        except BaseException as error:
            said.append(repr(error))
    with extantfs.open(disk) as other:
        said.append((other / "etc/hostname").read_text().strip())
    return " ".join(said)


def grown(work):
    """How much memory work takes for good, in KiB."""
    for _ in range(500):
        work()
    gc.collect()
    before = resident()
    for _ in range(10_000):
        work()
    gc.collect()
    return resident() - before


def resident():
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1])


def test_memory_does_not_grow_with_opens(content):
    small = extantfs.build([extantfs.Entry("/a", b"1")], profile="ext2").image
    opened = io.BytesIO(small)
    image = extantfs.open(content)

    def work():
        with extantfs.open(opened) as other:
            assert (other / "a").read_bytes() == b"1"
        with (image / "etc/passwd").open("rb") as file:
            file.read(1)

    assert grown(work) < 4 << 10
    image.close()


# Who runs the tests in the background has the key ignored, also in what is started from there.
SLOW = """
import extantfs, io, os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
class Slow(io.BytesIO):
    slow = False
    def read(self, length=-1):
        if self.slow:
            os.write(1, b"read\\n")
            time.sleep(0.2)
        return super().read(length)
content = open(sys.argv[1], "rb").read()
memory = Slow(content)
image = extantfs.open(memory)
memory.slow = True
try:
    if sys.argv[2] == "check":
        image.check()
    elif sys.argv[2] == "tar":
        while True:
            image.tar(io.BytesIO())
    else:
        def entries():
            number = 0
            while True:
                number += 1
                os.write(1, b"read\\n")
                yield extantfs.Entry(f"/{number}", b"")
        extantfs.build(entries())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("work", ["check", "tar", "build"])
def test_a_key_ends_work(disk, work):
    words = [sys.executable, "-c", SLOW, str(disk), work]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "read\n"
    child.send_signal(signal.SIGINT)
    said = child.communicate(timeout=60)[0]
    assert said.splitlines()[-1] == "interrupted"
    assert child.returncode == 0


def test_other_threads_run_meanwhile(content):
    """The lock of the interpreter is not held: a count goes on while an image is built."""
    counted = [0]
    stop = threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    before = counted[0]
    extantfs.build([extantfs.Entry("/a", bytes(8 << 20))])
    after = counted[0]
    stop.set()
    thread.join()
    assert after > before


def test_limits_of_the_host(disk):
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 0
    images = [extantfs.open(disk) for _ in range(50)]
    assert all((image / "etc/hostname").exists() for image in images)
    [image.close() for image in images]
