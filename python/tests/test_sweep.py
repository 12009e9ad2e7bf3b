"""Sweeps: the jobs and results of the command, on this machine and on a Dask cluster."""

import dataclasses
import errno
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import types

import extantfs
import pytest
from extantfs._sweep import on_dask, process
from sweeping import command, fill, kept, lab_runs, mixed

@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a scenario, images and a tree, in which paths begin."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    fill(tmp_path)
    return tmp_path


@pytest.fixture
def one_image(folder):
    return {"jobs": [{"kind": "check", "over": {"image": "a.image"}}]}


def test_it_is_the_command(folder):
    (folder / "matrix.toml").write_text(mixed())
    lines = command("sweep", "plan", "matrix.toml")
    (folder / "jobs").write_bytes(lines)
    printed = command("sweep", "run", "jobs", "theirs", "--json")
    told = []
    ours = extantfs.sweep("matrix.toml", "ours", progress=lambda *words: told.append(words))
    results = list(ours.results)
    assert [job.line for job in ours.jobs] == lines.decode().splitlines()
    assert {one.id for one in results} == {job.id for job in ours.jobs}
    assert len(results) == len(ours.jobs) == ours.done and ours.failed == ()
    assert told == sorted(told) and told[-1] == (len(ours.jobs),) * 2
    named = {**json.loads(printed), "directory": str(folder / "ours")}
    assert json.loads(ours.json) == named
    assert kept("ours") == kept("theirs")
    one = results[0]
    assert one.json == (folder / f"ours/results/{one.id[:2]}/{one.id}.json").read_bytes()
    assert (one.exit, one.document) == (0, json.loads(one.json)["document"])
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.exit = 1
    again = extantfs.sweep((folder / "jobs").read_text().splitlines(), "ours").wait()
    assert (again.done, again.there) == (len(results), len(results))
    assert again.result(one.id) == one


def test_a_dict_is_the_file_of_the_same_shape(folder):
    (folder / "matrix.toml").write_text(
        'limits = { memory = "1G", seconds = 100 }\n[[jobs]]\nkind = "lab run"\n'
        'with = { scale = 10 }\nover = { seed = { from = 1, to = 2 }, scenario = ["small.toml"], '
        'column = { placement = ["orlov", "parent"] } }\nexcept = [{ seed = 2 }]\n'
        '[[jobs]]\nkind = ["diff"]\n'
        "zip = [{ a = ['a.image', \"b.image\"], b = ['b.image', 'b.image'] }]\n"
    )
    matrix = {
        "limits": {"memory": "1G", "seconds": 100},
        "jobs": [
            {
                "kind": "lab run",
                "with": {"scale": 10},
                "over": {
                    "seed": {"from": 1, "to": 2},
                    "scenario": (pathlib.Path("small.toml"),),
                    "column": {"placement": ["orlov", "parent"]},
                },
                "except": [{"seed": 2}],
            },
            {"kind": ["diff"], "zip": [{"a": ["a.image", "b.image"], "b": ["b.image"] * 2}]},
        ],
    }
    planned = [extantfs.sweep(one) for one in (matrix, "matrix.toml", pathlib.Path("matrix.toml"))]
    lines = [[job.line for job in one.wait().jobs] for one in planned]
    assert lines[0] == lines[1] == lines[2] and len(lines[0]) == 4
    job = planned[0].jobs[0]
    assert (job.memory_bytes, job.seconds, job.kind) == (1 << 30, 100, "lab run")
    assert job.label.startswith("lab run column.placement=orlov scale=10 ")


def test_words_of_a_dict_are_those_of_toml():
    from extantfs._sweep.matrix import dumped

    tomllib = pytest.importorskip("tomllib")
    words = ["", 'a"b\\c', "tab\tline\nreturn\r", "\x00\x1f\x7f", "\u00e4\u4e2d\U0001f600", "it's"]
    matrix = {
        "limits": {"a key with spaces": 1, "": "empty", 'q"': True, "x-y_1": [1, [2.5, -3]]},
        "jobs": [{"kind": words, "over": {one: {"to": 2**63 - 1, "x": -(2**63)}}} for one in words]
    }
    assert tomllib.loads(dumped(matrix)) == matrix


def test_the_table_is_that_of_collect(folder):
    pandas = pytest.importorskip("pandas") if "pandas" in sys.modules else None
    (folder / "matrix.toml").write_text(mixed())
    ours = extantfs.sweep("matrix.toml", "ours").wait()
    lines = command("sweep", "collect", "ours", "--jsonl").splitlines()
    rows = [json.loads(line) for line in lines]
    columns = ours.columns()
    assert [one.name for one in columns] == list(rows[0])
    for one in columns:
        assert list(one.values) == [row[one.name] for row in rows]
    kinds = {one.name: one.kind for one in columns}
    assert (kinds["job"], kinds["seed"], kinds["exit"]) == ("string", "int64", "int64")
    # Of these jobs only, whatever else the directory has.
    part = extantfs.sweep([ours.jobs[-1].line], "ours").wait()
    assert set(part.columns()[0].values) == {ours.jobs[-1].id}
    assert pandas is None or len(ours.frame()) == len(rows)


def test_what_fails_fails_alone_by_name(folder, one_image):
    matrix = {
        "jobs": [
            {"kind": "check", "over": {"image": ["a.image", "b.image"]}},
            {"kind": "lab run", "with": {"scenario": "small.toml"}, "over": {"seed": [1, 2]}},
        ]
    }
    lines = [job.line for job in extantfs.sweep(matrix).wait().jobs]
    (folder / "b.image").write_bytes((folder / "a.image").read_bytes())
    ours = extantfs.sweep(lines, "ours").wait()
    (failed,) = ours.failed
    assert (failed.words, failed.tries) == (("check", "b.image"), 1)
    assert failed.reason == "b.image: has changed since the plan was made"
    assert failed.json == (folder / f"ours/failed/{failed.id}.json").read_bytes()
    assert (ours.done, json.loads(ours.json)["failed"]) == (3, 1)
    with pytest.raises(KeyError):
        ours.result(failed.id)


def test_limits_are_held(folder):
    tight = extantfs.sweep(lab_runs("small.toml", 1), memory="1M", retries=0).wait()
    assert tight.failed[0].reason.startswith("passed its memory limit of 1 MiB")
    late = extantfs.sweep(lab_runs("post-0", 1), seconds=1, retries=1).wait()
    assert (late.failed[0].reason, late.failed[0].tries) == ("passed its time limit of 1 s", 2)


@pytest.mark.parametrize(
    ("matrix", "words", "error", "said"),
    [
        ("[[jobs]]\nkind = 'check'\nfoo = 1\n", {}, ValueError, r"m\.toml:3: foo: no such key"),
        ("[[jobs]]\nkind = 'chekc'\n", {}, ValueError, r"m\.toml:2: chekc"),
        ("[[jobs]\n", {}, ValueError, r"m\.toml:1"),
        ("{ no job\n", {}, ValueError, r"m\.toml:1: is no job"),
        ({"jobs": [{"kind": "check", "foo": 1}]}, {}, ValueError, "^matrix:3: foo: no such key"),
        ({"jobs": [{"kind": None}]}, {}, TypeError, r"jobs\[0\].kind: .* NoneType"),
        ({"jobs": [7]}, {}, TypeError, r"jobs\[0\]: a dict, not int"),
        ({"jobs": [{"kind": 2**63}]}, {}, ValueError, "64 bits"),
        ({1: 2}, {}, TypeError, "a key of a matrix is a str"),
        ([], {}, ValueError, "matrix: has no job"),
        ([7], {}, TypeError, "matrix:1: a line of a plan"),
        (7, {}, TypeError, "matrix: a path, a dict or lines, not int"),
        ("", {"workers": 0}, ValueError, "workers: 0"),
        ("", {"memory": "2X"}, ValueError, "memory: 2X: has to be memory such as"),
        ("", {"memory": 1000}, ValueError, "less than 1M"),
        ("", {"seconds": "1"}, TypeError, "seconds: a whole number"),
        ("", {"retries": -1}, ValueError, "retries: -1"),
        ("", {"progress": 7}, TypeError, "not callable"),
        ("", {"client": 7}, TypeError, "client: a distributed.Client, not int"),
        ("", {"resources": {}}, ValueError, "resources: only the workers of a client"),
        ("", {"directory": "s3://bucket/x"}, ValueError, "without a client|fsspec"),
    ],
)
def test_what_means_nothing_is_refused(folder, matrix, words, error, said):
    if isinstance(matrix, str):
        text = matrix or "[[jobs]]\nkind = 'check'\nover = { image = 'a.image' }\n"
        (folder / "m.toml").write_text(text)
        matrix = "m.toml"
    if "s3://" in str(words) and "fsspec" not in sys.modules:
        pytest.importorskip("s3fs")
    with pytest.raises(error, match=said):
        extantfs.sweep(matrix, **words).wait()


def test_a_product_that_is_too_large_is_counted(folder):
    with pytest.raises(ValueError, match="1000000000 combinations, the limit is 1000000"):
        extantfs.sweep(lab_runs("small.toml", 10**9))
    few = {"jobs": [{"kind": "check", "over": {"image": ["a.image", "b.image"]}}]}
    with pytest.raises(ValueError, match="2 combinations, the limit is 1"):
        extantfs.sweep(few, limit=1)


def test_files_that_are_not_there(folder):
    with pytest.raises(FileNotFoundError):
        extantfs.sweep("none.toml")
    with pytest.raises((OSError, ValueError), match="none.image"):
        extantfs.sweep({"jobs": [{"kind": "check", "over": {"image": "none.image"}}]})


def test_a_job_of_another_version(folder, one_image):
    line = extantfs.sweep(one_image).wait().jobs[0].line
    other = line.replace(f'"version":"{extantfs.__version__}"', '"version":"0.0.1"')
    with pytest.raises(ValueError, match="matrix:2: is a job of extant 0.0.1 .*plan it again"):
        extantfs.sweep([line, other])
    with pytest.raises(ValueError, match="matrix:2: the same job is in a line before"):
        extantfs.sweep([line, line])
    changed = line.replace('"a.image"', '"b.image"')
    with pytest.raises(ValueError, match="was changed after it was planned"):
        extantfs.sweep([changed]).wait()


def test_two_runs_in_one_directory(folder, one_image):
    from extantfs._sweep.on_dask import _lock
    from extantfs._sweep.store import Directory

    with _lock(Directory(str(folder / "night"))):
        with pytest.raises(extantfs.InUseError, match="is at work in it") as caught:
            extantfs.sweep(one_image, "night").wait()
        assert caught.value.errno == errno.EBUSY
        with pytest.raises(extantfs.InUseError), _lock(Directory(str(folder / "night"))):
            pass
    assert extantfs.sweep(one_image, "night").wait().done == 1


def test_a_directory_that_cannot_be_written(folder, one_image):
    (folder / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        extantfs.sweep(one_image, "file").wait()
    with pytest.raises(ValueError, match="tree: holds sub, which no sweep has"):
        extantfs.sweep(one_image, "tree").wait()


def other_command(path, words):
    """A program that says other words than a worker."""
    path.write_text(f"#!/bin/sh\nprintf '%s\\n' '{words}'\ncat > /dev/null\n")
    path.chmod(0o755)
    return path


OTHERS = [
    ('{"schema":"extant-sweep-worker/1","version":"0.0.1"}', "is extant 0.0.1, and the jobs are"),
    ("error: unrecognized subcommand", "it is no extant that has"),
]


@pytest.mark.parametrize(("words", "said"), OTHERS)
def test_a_command_that_is_another(folder, one_image, words, said):
    program = other_command(folder / "other", words)
    with pytest.raises(extantfs.SweepError, match=said):
        extantfs.sweep(one_image, program=program).wait()
    with pytest.raises(extantfs.SweepError, match="cannot be run as a worker"):
        extantfs.sweep(one_image, program=folder / "none").wait()


def test_a_sweep_is_cancelled(folder):
    slow = lab_runs("post-0", 50)
    with pytest.raises(ZeroDivisionError), extantfs.sweep(slow, "night") as ours:
        raise ZeroDivisionError
    assert ours.is_cancelled and ours.has_ended and ours.done < 50
    # Nothing holds the directory any more.
    began = time.monotonic()
    other = extantfs.sweep(slow, "night")
    other.cancel()
    assert list(other.results) == [other.result(one) for one in other._done]
    assert time.monotonic() - began < 60


# Who runs the tests in the background has the key ignored, also in what is started from there.
SLOW = """
import signal, sys
import extantfs
signal.signal(signal.SIGINT, signal.default_int_handler)
seeds = {"from": 1, "to": 50}
matrix = {"jobs": [{"kind": "lab run", "with": {"scenario": "post-0"}, "over": {"seed": seeds}}]}
ours = extantfs.sweep(matrix, "night")
print("begun", flush=True)
try:
    ours.wait()
except KeyboardInterrupt:
    print("interrupted", ours.is_cancelled, flush=True)
"""


def workers_in(folder):
    """The processes that work in a folder."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.readlink(f"/proc/{entry}/cwd") == str(folder):
                found.append(int(entry))
        except OSError:
            pass
    return [one for one in found if one != os.getpid()]


@pytest.mark.parametrize("key", [signal.SIGINT, signal.SIGKILL])
def test_a_key_ends_a_sweep_and_so_does_the_end_of_the_process(folder, key):
    words = [sys.executable, "-c", SLOW]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=folder)
    try:
        assert child.stdout.readline() == "begun\n"
        time.sleep(1.5)
        child.send_signal(key)
        said = child.communicate(timeout=60)[0]
        assert said == ("interrupted True\n" if key == signal.SIGINT else "")
        until = time.monotonic() + 30
        while workers_in(folder) and time.monotonic() < until:
            time.sleep(0.1)
        assert workers_in(folder) == []
    finally:
        child.kill()


def test_the_package_does_not_need_the_libraries():
    """What is imported with the package is its own."""
    names = ("distributed", "fsspec", "pandas", "IPython")
    words = f"import sys, extantfs; print([n for n in {names} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_progress_is_shown(folder, one_image, monkeypatch, capsys):
    extantfs.sweep(one_image, progress=True).wait().wait()
    assert capsys.readouterr().err == "sweep: 1 of 1 jobs\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    extantfs.sweep(one_image, progress=True).wait()
    assert capsys.readouterr().err.endswith("\rsweep: 1 of 1 jobs\x1b[K\n")
    # In a notebook.
    bars = []

    class Bar:
        def __init__(self, total):
            self.total, self.progress, self.shown = total, 0, 0
            bars.append(self)

        def display(self):
            self.shown += 1

    shell = types.SimpleNamespace(kernel=None)
    display = types.SimpleNamespace(ProgressBar=Bar)
    package = types.SimpleNamespace(get_ipython=lambda: shell, display=display)
    monkeypatch.setitem(sys.modules, "IPython", package)
    extantfs.sweep(one_image, progress=True).wait()
    (bar,) = bars
    assert (bar.total, bar.progress, bar.shown) == (1, 1, 1)
    assert capsys.readouterr().err == ""


def test_what_progress_raises_cancels(folder):
    def enough(done, total):
        raise ZeroDivisionError(done)

    ours = extantfs.sweep(lab_runs("post-0", 50), progress=enough)
    with pytest.raises(ZeroDivisionError):
        ours.wait()
    assert ours.is_cancelled and ours.has_ended


# A worker whose jobs hold memory, or end it, as their words say.
GREEDY = """#!{python}
import os, sys, time
print('{{"schema":"extant-sweep-worker/1","version":"1"}}', flush=True)
for line in sys.stdin:
    if "large" in line:
        held = bytearray(b"x" * (300 << 20))
        time.sleep(60)
    if "ends" in line:
        sys.stderr.write("one\\ntwo\\n")
        sys.exit(3)
    if "other" in line:
        print('{{"id":"y","state":"done"}}', flush=True)
    print('{{"id":"x","state":"done"}}', flush=True)
"""


def test_a_worker_is_killed_at_a_limit(folder):
    (folder / "greedy").write_text(GREEDY.format(python=sys.executable))
    (folder / "greedy").chmod(0o755)

    def run(line, limits, is_stopped=lambda: False, version="1"):
        worker = process.Process([str(folder / "greedy")], "night", version)
        try:
            return worker.run(line, "x", limits, is_stopped)
        finally:
            worker.dismiss()
            assert not worker.is_running

    limits = process.Limits(200 << 20, None)
    assert run("small", limits)["state"] == "done"
    began = time.monotonic()
    with pytest.raises(process.Ended, match=r"passed its memory limit of 200 MiB \(it held "):
        run("large", limits)
    with pytest.raises(process.Ended, match="passed its time limit of 1 s"):
        run("large", process.Limits(None, 1))
    with pytest.raises(process.Ended, match="the sweep was cancelled"):
        run("large", process.Limits(None, None), lambda: True)
    assert time.monotonic() - began < 50
    with pytest.raises(process.Ended, match=r"in the middle of it \(exit status: 3\)") as caught:
        run("ends", limits)
    assert caught.value.said == ("one", "two")
    with pytest.raises(extantfs.SweepError, match="which no worker does"):
        run("other", limits)
    with pytest.raises(extantfs.SweepError, match="is extant 1, and the jobs are of 2"):
        run("small", limits, version="2")


def test_what_comes_twice_counts_once(folder, one_image):
    ours = extantfs.sweep(one_image).wait()
    job = ours.jobs[0]
    ours._arrived(job.id)
    ours._arrived("0" * 64)
    ours._gave_up(extantfs.SweepFailure(job.id, job.words, job.label, "late", None, 1, ()))
    assert (ours.done, ours.failed) == (1, ()) and len(list(ours.results)) == 1


def test_batches_are_as_long_as_they_have_to_be():
    pace = on_dask._Pace()
    assert pace.size(10_000, 2) == 1
    for _ in range(50):
        pace.note(0.001)
    # 100 to 500 ms, by what is left.
    assert (pace.size(10_000, 2), pace.size(1200, 2), pace.size(10, 2)) == (500, 200, 100)
    # A large cluster has longer ones.
    assert pace.size(10**6, 100) == 1000
    for _ in range(500):
        pace.note(0.6)
    assert pace.size(10_000, 2) == 1 and pace.size(10**6, 1000) >= 8
