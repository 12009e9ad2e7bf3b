"""What a mount answers, line by line, to be compared with that of the kernel's ext4.

as_ext4.py FOLDER WORD..: with the word "ctime", the change times of files after chattr too.
"""
import ctypes
import errno
import fcntl
import mmap
import os
import stat
import struct
import subprocess
import sys
import time

folder, words = os.path.realpath(sys.argv[1]), sys.argv[2:]
os.chdir(folder)
os.umask(0o22)
libc = ctypes.CDLL(None, use_errno=True)
root = os.open(".", os.O_RDONLY)


def said(call):
    """What a call returns, or the name of its error."""
    try:
        return call()
    except OSError as error:
        return errno.errorcode[error.errno]


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "failed")
    return result


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("of", ctypes.c_ubyte * 128)]


def handle_of(path):
    handle, mount = Handle(), ctypes.c_int()
    handle.bytes = 128
    name, place = path.encode(), ctypes.byref(mount)
    checked(libc.name_to_handle_at(-100, name, ctypes.byref(handle), place, 0))
    return handle


def forget():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("3")


def opened(handle):
    number = checked(libc.open_by_handle_at(root, ctypes.byref(handle), os.O_RDONLY))
    facts = os.fstat(number)
    if stat.S_ISREG(facts.st_mode):
        what = os.read(number, 9)
    else:
        place = os.readlink(f"/proc/self/fd/{number}").replace(folder, "")
        what = (place, sorted(name for name in os.listdir(number) if name != "lost+found"))
    os.close(number)
    return stat.filemode(facts.st_mode), what


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def handles():
    os.makedirs("a/b/c")
    write("a/b/f", "hello")
    for path in [".", "a", "a/b/c", "a/b/f"]:
        handle = handle_of(path)
        forget()
        print("handle", path, said(lambda: opened(handle)))
    file, inner = handle_of("a/b/f"), handle_of("a/b/c")
    os.unlink("a/b/f")
    os.rmdir("a/b/c")
    forget()
    print("removed", said(lambda: opened(file)), said(lambda: opened(inner)))
    # The numbers are used again, with another generation.
    write("a/b/g", "again")
    os.mkdir("a/b/d")
    forget()
    print("used again", said(lambda: opened(file)), said(lambda: opened(inner)))


def chattr(change, path):
    done = subprocess.run(["chattr", change, path], capture_output=True, text=True)
    return done.returncode


class Moment(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


NOW, OMIT, LONG_AGO = Moment(0, (1 << 30) - 1), Moment(0, (1 << 30) - 2), Moment(5, 0)


def times(path, access, modify):
    checked(libc.utimensat(-100, path.encode(), (Moment * 2)(access, modify), 0))


def append_only():
    write("log", "x")
    os.mkdir("logs")
    for path in ["log", "logs"]:
        chattr("+a", path)
        print("touch", path, said(lambda: os.utime(path)))
        for name, pair in {
            "now now": (NOW, NOW),
            "now omit": (NOW, OMIT),
            "omit now": (OMIT, NOW),
            "now set": (NOW, LONG_AGO),
            "set set": (LONG_AGO, LONG_AGO),
            "omit omit": (OMIT, OMIT),
        }.items():
            print("times", path, name, said(lambda: times(path, *pair)))
        print("mode", path, said(lambda: os.chmod(path, 0o700)))
        print("owner", path, said(lambda: os.chown(path, 1, 1)))
        recent = time.time() - os.stat(path).st_mtime
        print("recent", path, -5 < recent < 60)
        chattr("-a", path)
    write("rock", "x")
    chattr("+i", "rock")
    print("touch rock", said(lambda: os.utime("rock")), said(lambda: times("rock", NOW, LONG_AGO)))
    chattr("-i", "rock")


def as_user(user, group, call, groups=()):
    """What a call says that another user makes."""
    read, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups(groups)
        os.setgid(group)
        os.setuid(user)
        os.write(write_end, repr(said(call)).encode())
        os._exit(0)
    os.close(write_end)
    answer = os.read(read, 999).decode()
    os.waitpid(child, 0)
    os.close(read)
    return answer


def with_file(flags, call):
    def change():
        number = os.open("rights", os.O_RDWR | flags)
        try:
            call(number)
        finally:
            os.close(number)

    return change


def mapped(number):
    memory = mmap.mmap(number, 10)
    memory[0:1] = b"q"
    memory.flush()
    memory.close()


def copied(number):
    source = os.open("source", os.O_RDONLY)
    os.copy_file_range(source, number, 4)
    os.close(source)


def punched(number):
    checked(libc.fallocate(number, 3, ctypes.c_long(0), ctypes.c_long(4096)))


CHANGES = {
    "write": with_file(0, lambda number: os.write(number, b"zz")),
    "write nothing": with_file(0, lambda number: os.write(number, b"")),
    "append": with_file(os.O_APPEND, lambda number: os.write(number, b"zz")),
    "write synced": with_file(os.O_SYNC, lambda number: os.write(number, b"zz")),
    "open truncated": with_file(os.O_TRUNC, lambda number: None),
    "truncate": lambda: os.truncate("rights", 3),
    "ftruncate": with_file(0, lambda number: os.ftruncate(number, 3)),
    "allocate": with_file(0, lambda number: os.posix_fallocate(number, 0, 9000)),
    "punch": with_file(0, punched),
    "map": with_file(0, mapped),
    "copy": with_file(0, copied),
    "chown same": lambda: os.chown("rights", 1000, 1000),
    "chown nothing": lambda: os.chown("rights", -1, -1),
    "touch": lambda: os.utime("rights"),
    "attribute": lambda: os.setxattr("rights", "user.a", b"1"),
}


def run_rights():
    os.chmod(".", 0o777)
    write("source", "sourcesource")
    os.chmod("source", 0o666)
    for mode in [0o6777, 0o6767, 0o2767, 0o4777]:
        for who, user, group in [
            ("root", 0, 0),
            ("owner", 1000, 1000),
            ("other", 1001, 1001),
            ("in group", 1001, 1000),
        ]:
            for name, call in CHANGES.items():
                write("rights", "0123456789")
                os.chown("rights", 1000, 1000)
                os.chmod("rights", mode)
                answer = repr(said(call)) if user == 0 else as_user(user, group, call)
                print("rights", oct(mode), who, name, answer, oct(os.stat("rights").st_mode))
                os.unlink("rights")


def change_times():
    os.mkdir("folder")
    write("file", "x")
    paths = ["folder"] + (["file"] if "ctime" in words else [])
    for path in paths:
        for change in ["+d", "+d", "-d", "+i", "-i", "+a", "-a", "+A", "+S", "+s", "+x"]:
            before = os.stat(path).st_ctime_ns
            time.sleep(0.02)
            code = chattr(change, path)
            print("ctime", path, change, code, changed_since(path, before))
    # A program has it open and has written to it, and the kernel has that time to write back.
    if "ctime" in words:
        file = os.open("file", os.O_RDWR)
        os.write(file, b"y")
        before = os.fstat(file).st_ctime_ns
        time.sleep(0.02)
        chattr("+d", "file")
        os.close(file)
        print("ctime open", changed_since("file", before))
        forget()
        print("ctime forgotten", os.stat("file").st_ctime_ns > before)


def changed_since(path, before):
    """Whether the change time is a later one, if need be after a moment."""
    end = time.monotonic() + 2
    while os.stat(path).st_ctime_ns <= before and time.monotonic() < end:
        time.sleep(0.001)
    return os.stat(path).st_ctime_ns > before


def trim():
    for name, wanted in {
        "nothing": (0, 0, 0),
        "after the end": (1 << 40, (1 << 64) - 1, 0),
        "too long": (0, (1 << 64) - 1, 1 << 40),
        "all": (0, (1 << 64) - 1, 0),
    }.items():
        ask = struct.pack("QQQ", *wanted)
        told = said(lambda: struct.unpack("QQQ", fcntl.ioctl(root, 0xC0185879, ask)))
        print("trim", name, told if isinstance(told, str) else told[1] > 0)


MEMBER, OTHER, KEEPER = 1007, 1001, 1002
CAP_SYS_RESOURCE = 24
PIECES = [1 << 16, 1 << 13, 1 << 10]


def reserve():
    """Who gets blocks of a volume that has none but those of the reserve."""
    os.chmod(".", 0o777)
    os.mkdir("names")
    os.chmod("names", 0o777)

    def grown(name, size, piece=1 << 16):
        """Writes this much, to the device."""
        file = os.open(name, os.O_WRONLY | os.O_CREAT, 0o666)
        try:
            for _ in range(0, size, piece):
                os.write(file, bytes(piece))
                if piece < 1 << 16:
                    os.fsync(file)
            os.fsync(file)
        finally:
            os.close(file)

    def filled():
        """Takes all that there is: a large write needs more at once."""
        return [said(lambda: grown(f"full {piece}", 1 << 30, piece)) for piece in PIECES]

    def allocated(name, size):
        file = os.open(name, os.O_WRONLY | os.O_CREAT, 0o666)
        try:
            os.posix_fallocate(file, 0, size)
        finally:
            os.close(file)

    print("reserve fill", as_user(OTHER, OTHER, filled))
    room = os.statvfs(".")
    reserved = room.f_bfree - room.f_bavail
    print("reserve left", room.f_bavail < 64, reserved >= 1000)
    users = {
        "other": (OTHER, OTHER, []),
        "of a group": (OTHER, OTHER, [4, 5]),
        "keeper": (KEEPER, OTHER, []),
        "member": (OTHER, MEMBER, []),
        "further member": (OTHER, OTHER, [4, MEMBER]),
    }
    # The kernel asks for this privilege, and root of a container may be without it.
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("CapEff:"))
    if int(line.split()[1], 16) >> CAP_SYS_RESOURCE & 1:
        users["root"] = (0, 0, [])
    for who, (user, group, groups) in users.items():
        calls = {
            "writes": lambda: grown("w " + who, 1 << 19),
            "allocates": lambda: allocated("a " + who, 1 << 19),
            "makes directories": lambda: [os.mkdir(f"names/{who} {n}") for n in range(70)] and 0,
            "makes a file": lambda: os.close(os.open("f " + who, os.O_CREAT | os.O_WRONLY)),
        }
        for name, call in calls.items():
            print("reserve", who, name, as_user(user, group, call, groups))


if "read" in words:
    trim()
elif "reserve" in words:
    reserve()
else:
    handles()
    append_only()
    run_rights()
    change_times()
