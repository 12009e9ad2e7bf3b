"""The laboratory: the command's own bytes, as values, tables and files."""

import csv
import dataclasses
import io
import json
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from extantfs import lab

# The quickest.
POSTS_OF_EACH_TEST = (2, 3)


def command(*words, code=(0,)):
    """What the command prints."""
    called = [sys.executable, "-m", "extantfs", "lab", *map(str, words)]
    done = subprocess.run(called, capture_output=True)
    assert done.returncode in code, done.stderr.decode()
    return done.stdout


@pytest.fixture(scope="module")
def ran():
    return lab.run("read-cold", scale=50, drive="ide-2001-7200", preset="linux-2.4", seed=3)


@pytest.fixture
def measured(tmp_path):
    """A measured trace."""
    path = tmp_path / "measured.trace"
    path.write_text("".join(f"R Miss {at * 977} 8 {9000 + at} 100\n" for at in range(40)))
    return path


@pytest.fixture
def alibaba(tmp_path):
    """A trace of another system."""
    path = tmp_path / "alibaba.csv"
    rows = (f"7,{'RW'[at % 2]},{at * 409600},4096,{1000 * at}\n" for at in range(100))
    path.write_text("".join(rows))
    return path


def test_a_run_is_that_of_the_command(ran, tmp_path):
    words = ["--scale", 50, "--drive", "ide-2001-7200", "--preset", "linux-2.4", "--seed", 3]
    files = [tmp_path / name for name in ("run.csv", "run.jsonl", "run.parquet")]
    wanted = ["--csv", files[0], "--jsonl", files[1], "--parquet", files[2]]
    assert ran.json == command("run", "read-cold", *words, *wanted, "--json")
    ours = [tmp_path / f"ours{file.suffix}" for file in files]
    ran.to_csv(ours[0])
    ran.to_jsonl(str(ours[1]))
    ran.to_parquet(ours[2])
    for file, our in zip(files, ours):
        assert file.read_bytes() == our.read_bytes() != b""
    assert files[2].read_bytes()[:4] == files[2].read_bytes()[-4:] == b"PAR1"


def test_the_fields_of_a_run(ran):
    fields = json.loads(ran.json)
    assert ran.details == fields
    assert (ran.scenario, ran.seed, ran.scale) == ("read-cold", 3, 50)
    assert ran.elapsed_ns == fields["elapsed_ns"] and ran.elapsed_s == ran.elapsed_ns / 1e9
    assert len(ran.measures) == len(fields["measures"]) > 0
    for one, other in zip(ran.measures, fields["measures"]):
        assert dataclasses.asdict(one) == other
    assert [one.label for one in ran.steps] == [one["label"] for one in fields["steps"]]
    assert ran.steps[0].traffic["bytes_written"] == fields["steps"][0]["traffic"]["bytes_written"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        ran.seed = 4
    again = lab.run("read-cold", scale=50, drive="ide-2001-7200", preset="linux-2.4", seed=3)
    assert again == ran and hash(again) == hash(ran) and again.trace_hash == ran.trace_hash
    other = lab.run("read-cold", scale=50, drive="ide-2001-7200", preset="linux-2.4", seed=4)
    assert other != ran and other.trace_hash != ran.trace_hash


def test_columns_are_the_rows_of_the_table(ran, tmp_path):
    ran.to_jsonl(tmp_path / "rows")
    rows = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    columns = ran.columns()
    assert [one.name for one in columns] == list(rows[0])
    for one in columns:
        assert list(one.values) == [row[one.name] for row in rows]
    kinds = {one.name: one.kind for one in columns}
    assert (kinds["scenario"], kinds["elapsed_ns"]) == ("string", "int64")
    ran.to_csv(tmp_path / "table")
    table = list(csv.reader(io.StringIO((tmp_path / "table").read_text())))
    assert len(table) == len(rows) + 1


def posts_are_those_of_the_command(numbers):
    ours = lab.posts(numbers)
    # 1: a row misses.
    assert ours.json == command("posts", *numbers, "--json", code=(0, 1))
    return ours


@pytest.fixture(scope="module")
def two_posts():
    return posts_are_those_of_the_command(POSTS_OF_EACH_TEST)


def test_posts_are_those_of_the_command(two_posts):
    assert [post.number for post in two_posts.posts] == list(POSTS_OF_EACH_TEST)
    fields = json.loads(two_posts.json)
    tables = [table for post in two_posts.posts for table in post.tables]
    raw = [table for post in fields["posts"] for table in post["tables"]]
    assert [table.title for table in tables] == [table["title"] for table in raw]
    cells = 0
    for table, other in zip(tables, raw):
        assert len(table.columns) == len(table.policies) == len(other["columns"])
        for row, one in zip(table.rows, other["rows"]):
            assert (row.what, row.agreement, row.verdict) == (
                one["what"],
                one["class"],
                one["verdict"],
            )
            for cell, its in zip(row.cells, one["cells"]):
                cells += 1
                assert cell.ours == (its["ours"] and its["ours"]["value"])
                assert cell.posted == (its["posted"] and its["posted"]["value"])
    assert cells > 100
    table = two_posts.posts[0].tables[0]
    assert table.cell(table.rows[0].what, table.columns[1]) is table.rows[0].cells[1]
    with pytest.raises(KeyError):
        table.cell("no such row", table.columns[0])
    assert two_posts.posts[0].table(table.title[:10]) is table


@pytest.mark.heavy
def test_all_posts_are_those_of_the_command():
    assert len(posts_are_those_of_the_command([]).posts) == 5


def test_a_measured_trace(measured):
    ours = lab.replay(measured, "ide-2001-7200")
    words = ["--trace", measured, "--drive", "ide-2001-7200", "--json"]
    assert ours.json == command("replay", *words)
    assert len(ours.times_ns) == ours.requests == 40
    assert ours.measured_mean_ms == pytest.approx(9.0195)
    columns = {one.name: one.values for one in ours.columns()}
    assert columns["time_ns"] == ours.times_ns
    assert columns["measured_ns"][:2] == (9_000_000, 9_001_000)


def test_a_trace_of_another_system(alibaba, tmp_path):
    written = tmp_path / "rows.parquet"
    ours = lab.replay(alibaba, "ssd-sata", times=True)
    words = ["--trace", alibaba, "--drive", "ssd-sata", "--json", "--parquet", written]
    assert ours.json == command("replay", *words)
    assert (ours.requests, ours.times_ns, ours.measured_mean_ms) == (100, None, None)
    ours.to_parquet(tmp_path / "ours")
    assert (tmp_path / "ours").read_bytes() == written.read_bytes()
    columns = {one.name: one.values for one in ours.columns()}
    assert sum(columns["time_ns"]) / 1e8 == pytest.approx(ours.mean_ms, rel=1e-4)
    assert set(columns["measured_ns"]) == {None}
    with pytest.raises(ValueError, match="times=True"):
        lab.replay(alibaba, "ssd-sata").columns()


def test_a_volume_that_ages():
    asked = {"months": 1, "size": 128 << 20, "layout_only": True}
    ours = lab.age("mail", preset=["modern", "linux-2.4"], **asked)
    words = ["mail", "--preset", "modern", "--preset", "linux-2.4", "--months", 1]
    assert ours.json == command("age", *words, "--size", "128M", "--layout-only", "--json")
    assert [series.name for series in ours.series] == ["modern", "linux-2.4"]
    assert ours.series[0].samples[-1].month == 1
    assert len(ours.columns()[0].values) == sum(len(series.samples) for series in ours.series)


def test_a_drive_is_fitted(tmp_path, measured):
    device = tmp_path / "device"
    device.write_bytes(bytes(range(256)) * (64 << 10))
    told = []
    found = lab.fit(device, time=5, buffered=True, name="mine", progress=lambda *w: told.append(w))
    assert json.loads(found.json)["schema"] == "extant-lab-fit/1"
    assert found.kind in ("rotating", "ssd", "network", "object") and found.values
    assert told and told == sorted(told) and told[-1][1] == 1000
    drive = tmp_path / "mine.toml"
    drive.write_text(found.drive_file)
    assert lab.replay(measured, drive).drive == "mine"
    names = {one.name: one.values for one in found.columns()}
    assert names["name"] == tuple(value.name for value in found.values)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: lab.run("no-such"), ValueError, "no such scenario; there are read-cold"),
        (lambda: lab.run("no-such"), ValueError, "extant lab list says"),
        (lambda: lab.run("read-cold", drive="ide"), ValueError, "no such drive; there are"),
        (lambda: lab.run("read-cold", drive="ide"), ValueError, "./drive.toml"),
        (lambda: lab.run("read-cold", preset="linux-9"), ValueError, "linux-9: .*linux-2.4"),
        (lambda: lab.run("read-cold", preset="x=y"), ValueError, "extant lab policies"),
        (lambda: lab.run("read-cold", processor="2077"), ValueError, "2001, 2007, today"),
        (lambda: lab.run("/no/such.toml"), FileNotFoundError, "/no/such.toml"),
        (lambda: lab.run(pathlib.Path("nowhere")), FileNotFoundError, "nowhere"),
        (lambda: lab.run("read-cold", drive="/no/drive.toml"), FileNotFoundError, "drive.toml"),
        (lambda: lab.run("read-cold", image="/no/image"), FileNotFoundError, "/no/image"),
        (lambda: lab.run("read-cold", seed=-1), ValueError, "seed: -1 is not from 0"),
        (lambda: lab.run("read-cold", seed=1 << 63), ValueError, "seed"),
        (lambda: lab.run("read-cold", seed="1"), TypeError, "seed: a whole number, not str"),
        (lambda: lab.run("read-cold", scale=0), ValueError, "scale: 0"),
        (lambda: lab.run("read-cold", preset=7), TypeError, "preset"),
        (lambda: lab.run("read-cold", progress=7), TypeError, "not callable"),
        (lambda: lab.run(7), TypeError, "scenario: a name or a path, not int"),
        (lambda: lab.posts(9), ValueError, "post 9: is not modelled; there are 0, 1, 2, 3, 4"),
        (lambda: lab.posts(["3"]), TypeError, "number: a whole number, not str"),
        (lambda: lab.posts(3, seeds=0), ValueError, "seeds: 0 is not from 1 to 1000"),
        (lambda: lab.replay("/no/trace", "ssd-sata"), FileNotFoundError, "/no/trace"),
        (lambda: lab.fit("/no/device"), FileNotFoundError, "/no/device"),
        (lambda: lab.fit("/no/device", time=1), ValueError, "time: 1 is not from 5"),
        (lambda: lab.age("no-such"), ValueError, "no such profile or experiment; there are"),
        (lambda: lab.age("mail", preset="linux-9"), ValueError, "linux-9"),
        (lambda: lab.age("mail", volume="xfs"), ValueError, "there are ext2, ext3, ext4"),
        (lambda: lab.age("mail", size=1), ValueError, "16 MiB and 16 TiB"),
        (lambda: lab.age("mail", full=True, size=1 << 30), ValueError, "exclude"),
        (lambda: lab.age("/no/such.toml"), FileNotFoundError, "/no/such.toml"),
    ],
)
def test_what_means_nothing_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_what_is_wrong_in_a_file_is_named(tmp_path, measured):
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("name = 'x'\nseed = 'one'\n")
    with pytest.raises(ValueError, match=r"wrong.toml:\d+: "):
        lab.run(wrong)
    measured.write_text("R Miss 0 8 9000 100\nnonsense\n")
    with pytest.raises(ValueError, match=r"measured.trace:2: "):
        lab.replay(measured, "ssd-sata", format="measured")
    for words, said in [
        ({"format": "xyz"}, "xyz: no such format; there are auto, measured"),
        ({"pace": "slow"}, "slow: no such pace"),
        ({"beyond": "lost"}, "lost: no such beyond"),
    ]:
        with pytest.raises(ValueError, match=said):
            lab.replay(measured, "ssd-sata", **words)
    image = tmp_path / "image"
    image.write_bytes(bytes(1 << 20))
    with pytest.raises(lab.LabError, match="image"):
        lab.run("read-cold", image=image, scale=50)


def test_progress_is_told_and_may_end_the_work():
    told = []
    lab.posts(3, progress=lambda *words: told.append(words))
    assert told == sorted(told) and told[-1][0] > 3

    def enough(done, total):
        raise ZeroDivisionError(done)

    began = time.monotonic()
    with pytest.raises(ZeroDivisionError):
        lab.posts((0, 1), full=True, progress=enough)
    assert time.monotonic() - began < 60


# Who runs the tests in the background has the key ignored, also in what is started from there.
SLOW = """
import signal
import sys
from extantfs import lab
signal.signal(signal.SIGINT, signal.default_int_handler)
print("begun", flush=True)
calls = {
    "run": lambda: lab.run("post-0"),
    "posts": lambda: lab.posts(full=True),
    "age": lambda: lab.age("post-1", full=True),
}
try:
    calls[sys.argv[1]]()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("what", ["run", "posts", "age"])
def test_a_key_ends_work(what):
    words = [sys.executable, "-c", SLOW, what]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "begun\n"
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        assert child.communicate(timeout=60)[0] == "interrupted\n"
        assert child.returncode == 0
    finally:
        child.kill()


def test_a_frame_needs_a_library(ran, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        ran.frame()


WITHOUT_PANDAS = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "pandas":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Refuse())
import pyarrow
from extantfs import lab
ran = lab.run("read-cold", scale=100)
table = ran.frame()
assert isinstance(table, pyarrow.Table)
assert table.to_pydict() == {one.name: list(one.values) for one in ran.columns()}
print("a table")
"""


@pytest.mark.heavy
def test_a_frame_without_pandas_is_a_table_of_pyarrow():
    pytest.importorskip("pyarrow")
    done = subprocess.run([sys.executable, "-c", WITHOUT_PANDAS], capture_output=True, text=True)
    assert done.stdout == "a table\n", done.stderr


def same_rows(result, tmp_path):
    """pandas, pyarrow and duckdb read the Parquet file to the rows of the JSON Lines."""
    duckdb = pytest.importorskip("duckdb")
    pandas = pytest.importorskip("pandas")
    from pyarrow import parquet

    written, lines = tmp_path / "rows.parquet", tmp_path / "rows.jsonl"
    result.to_parquet(written)
    result.to_jsonl(lines)
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    expected = {one.name: [row[one.name] for row in rows] for one in result.columns()}
    table = parquet.read_table(written)
    assert table.to_pydict() == expected
    kinds = {"boolean": "bool"}
    assert [str(field.type) for field in table.schema] == [
        kinds.get(one.kind, one.kind) for one in result.columns()
    ]
    assert parquet.read_metadata(written).num_rows == len(rows)
    found = duckdb.sql(f"select * from '{written}'")
    assert found.columns == list(expected)
    assert [dict(zip(found.columns, row)) for row in found.fetchall()] == rows
    frame = result.frame()
    assert isinstance(frame, pandas.DataFrame)
    read = pandas.read_parquet(written, dtype_backend="numpy_nullable")
    pandas.testing.assert_frame_equal(read, frame)


@pytest.mark.heavy
def test_others_read_the_table_of_a_run(ran, tmp_path):
    same_rows(ran, tmp_path)


@pytest.mark.heavy
def test_others_read_the_table_of_posts(two_posts, tmp_path):
    same_rows(two_posts, tmp_path)


@pytest.mark.heavy
def test_others_read_the_table_of_a_replay(measured, alibaba, tmp_path):
    same_rows(lab.replay(measured, "ide-2001-7200"), tmp_path)
    same_rows(lab.replay(alibaba, "ssd-sata", times=True), tmp_path)


@pytest.mark.heavy
def test_others_read_a_table_of_many_groups(tmp_path):
    trace = tmp_path / "long.csv"
    trace.write_text("".join(f"7,R,{at * 4096},4096,{1000 * at}\n" for at in range(150_000)))
    same_rows(lab.replay(trace, "ssd-sata", times=True), tmp_path)


@pytest.mark.heavy
def test_others_read_the_table_of_an_aged_volume(tmp_path):
    found = lab.age("mail", preset="modern", months=1, size=128 << 20)
    same_rows(found, tmp_path)


@pytest.mark.heavy
def test_others_read_the_table_of_a_fit(tmp_path):
    device = tmp_path / "device"
    device.write_bytes(bytes(range(256)) * (64 << 10))
    same_rows(lab.fit(device, time=5, buffered=True), tmp_path)
