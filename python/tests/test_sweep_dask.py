"""Sweeps on a Dask cluster: the bytes of a run on one machine, whatever is killed meanwhile."""

import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import textwrap
import threading
import time

import extantfs
import pytest
from sweeping import command, fill, kept, lab_runs, library, mixed

pytestmark = pytest.mark.heavy


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a scenario, images and a tree, in which paths begin."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    fill(tmp_path)
    return tmp_path


def cluster(**words):
    distributed = library("distributed")
    asked = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    return distributed.LocalCluster(**{**asked, **words})


@pytest.fixture(scope="module")
def client():
    distributed = library("distributed")
    with cluster() as local, distributed.Client(local) as client:
        yield client


@pytest.fixture(scope="module")
def threads():
    """A client whose workers are threads of this process, which a store in memory needs."""
    distributed = library("distributed")
    with cluster(n_workers=1, threads_per_worker=2, processes=False) as local:
        with distributed.Client(local) as client:
            yield client


def serial(matrix, directory):
    """The results of one process, one job after the other."""
    lines = "".join(f"{job.line}\n" for job in matrix)
    pathlib.Path(f"{directory}.jsonl").write_text(lines)
    command("sweep", "run", f"{directory}.jsonl", directory, "--workers", 1, "--json")
    return kept(directory)


def test_it_is_a_run_of_the_command(folder, client):
    (folder / "matrix.toml").write_text(mixed())
    told = []
    ours = extantfs.sweep(
        "matrix.toml", "ours", client=client, progress=lambda *words: told.append(words)
    )
    results = list(ours.results)
    assert len(results) == len(ours.jobs) and told[-1] == (len(results),) * 2
    assert kept("ours") == serial(ours.jobs, "theirs")
    (plan,) = os.listdir("ours/plans")
    assert os.listdir("theirs/plans") == [plan]
    assert json.loads(ours.json)["done"] == len(results) and ours.there == 0
    again = extantfs.sweep("matrix.toml", "ours", client=client).wait()
    assert (json.loads(again.json)["there"], again.done) == (len(results), len(results))
    library("pandas").testing.assert_frame_equal(
        ours.frame(), extantfs.sweep("theirs.jsonl", "theirs").wait().frame()
    )
    # Nothing goes on where the workers are.
    assert set(client.run(commands_held).values()) == {0}


def commands_held():
    from extantfs._sweep import batch

    return len(batch._HELD)


@pytest.mark.parametrize("seed", [1])
def test_nothing_is_lost_whatever_is_killed(folder, seed):
    """1,000 simulations and 200 checks, while workers, their commands and their connections end."""
    distributed = library("distributed")
    psutil = library("psutil")
    images = folder / "images"
    images.mkdir()
    for number in range(100):
        shutil.copy(("a.image", "b.image")[number % 2], images / f"{number}.image")
    matrix = {
        "jobs": [
            {
                "kind": "lab run",
                "with": {"scenario": "small.toml"},
                "over": {
                    "drive": ["ide-2001-7200", "ssd-nvme"],
                    "column": {"placement": ["orlov", "parent"]},
                    "seed": {"from": 1, "to": 250},
                },
            },
            {"kind": ["check", "layout"], "over": {"image": {"files": "images/*.image"}}},
        ]
    }
    draw = random.Random(seed)
    killed = {"workers": 0, "commands": 0, "connections": 0}
    with cluster() as local, distributed.Client(local) as client:
        ours = extantfs.sweep(matrix, "ours", client=client, retries=3)
        assert len(ours.jobs) == 1200

        def kill():
            asked = time.monotonic()
            while not ours.has_ended:
                time.sleep(draw.uniform(0.2, 0.8))
                # What was not killed yet comes first: the jobs may be done before a draw has all.
                missing = [kind for kind, count in killed.items() if count == 0]
                kinds = missing or ["commands", "commands", "workers", "connections"]
                what = draw.choice(kinds)
                # One of two that are there: LocalCluster starts none in place of one that is
                # killed before it has begun, and a cluster without workers is waited for.
                addresses = set(local.scheduler.workers)
                nannies = [one for one in local.workers.values() if one.worker_address in addresses]
                if what != "commands" and (len(nannies) < 2 or killed[what] >= 6):
                    if len(addresses) < 2 and time.monotonic() - asked > 5:
                        asked = time.monotonic()
                        local.scale(len(local.worker_spec) + 1)
                    continue
                with contextlib.suppress(psutil.Error, IndexError, KeyError):
                    if what == "commands":
                        found = psutil.Process().children(recursive=True)
                        found = [one for one in found if "_command" in "".join(words_of(one))]
                        draw.choice(found).kill()
                    elif what == "workers":
                        psutil.Process(draw.choice(nannies).pid).kill()
                    else:
                        # The worker ends then, with its nanny.
                        address = draw.choice(nannies).worker_address
                        local.loop.add_callback(local.scheduler.stream_comms[address].comm.abort)
                    killed[what] += 1

        killer = threading.Thread(target=kill)
        killer.start()
        identities = [one.id for one in ours.results]
        killer.join()
    assert min(killed.values()) > 0, killed
    assert ours.failed == ()
    assert sorted(identities) == sorted(job.id for job in ours.jobs)
    # What was cut in the middle is swept out by the next run, which finds all done.
    again = json.loads(extantfs.sweep(matrix, "ours").json)
    assert (again["there"], again["done"], again["failed"]) == (1200, 0, 0)
    assert kept("ours") == serial(ours.jobs, "theirs")


def words_of(process):
    """The words that a process was started with; none if it has ended."""
    try:
        return process.cmdline()
    except library("psutil").Error:
        return []


def test_a_job_that_passes_a_limit_fails_alone(folder, client):
    matrix = {
        "jobs": [
            {
                "kind": "lab run",
                "with": {"scenario": "post-0"},
                "over": {"seed": 1},
                "limits": {"seconds": 1},
            },
            {
                "kind": "lab run",
                "with": {"scenario": "small.toml"},
                "over": {"seed": {"from": 1, "to": 20}},
            },
            {
                "kind": "lab run",
                "with": {"scenario": "small.toml"},
                "over": {"seed": 99},
                "limits": {"memory": "1M"},
            },
        ]
    }
    ours = extantfs.sweep(matrix, "ours", client=client, memory="1G").wait()
    late, large = ours.failed
    assert (late.reason, late.tries) == ("passed its time limit of 1 s", 2)
    assert large.reason.startswith("passed its memory limit of 1 MiB (it held ")
    assert "seed=99" in large.label and ours.done == 20
    theirs = extantfs.sweep(matrix, "theirs", memory="1G").wait()
    assert [one.label for one in theirs.failed] == [late.label, large.label]
    assert kept("ours", ("results",)) == kept("theirs", ("results",))
    one = f"failed/{late.id}.json"
    assert (folder / "ours" / one).read_bytes() == (folder / "theirs" / one).read_bytes()
    # A sweep without the limits forgets that they failed.
    relaxed = [line_without_limits(job.line) for job in ours.jobs[1:]]
    assert extantfs.sweep(relaxed, "ours", client=client).wait().failed == ()
    assert os.listdir("ours/failed") == [f"{late.id}.json"]


def line_without_limits(line):
    members = json.loads(line)
    members["limits"] = {}
    return json.dumps(members)


def test_an_image_that_changed(folder, client):
    matrix = {"jobs": [{"kind": "check", "over": {"image": ["a.image", "b.image"]}}]}
    lines = [job.line for job in extantfs.sweep(matrix).wait().jobs]
    (folder / "b.image").write_bytes((folder / "a.image").read_bytes())
    ours = extantfs.sweep(lines, "ours", client=client).wait()
    assert ours.failed[0].reason == "b.image: has changed since the plan was made"
    assert (ours.failed[0].tries, ours.done) == (1, 1)


def test_workers_that_cannot_run_the_jobs_are_named(folder, client, monkeypatch):
    matrix = {"jobs": [{"kind": "check", "over": {"image": "a.image"}}]}
    for words, said in [
        ('{"schema":"extant-sweep-worker/1","version":"0.0.1"}', "is extant 0.0.1, and the jobs"),
        ("usage: other", ".* it is no extant that has `sweep worker`"),
    ]:
        program = folder / "other"
        program.write_text(f"#!/bin/sh\nprintf '%s\\n' '{words}'\ncat > /dev/null\n")
        program.chmod(0o755)
        with pytest.raises(extantfs.SweepError, match=f"^worker tcp://.*/other: {said}"):
            extantfs.sweep(matrix, "ours", client=client, program=program).wait()
    with pytest.raises(extantfs.SweepError, match="^worker tcp://.*cannot be run as a worker"):
        extantfs.sweep(matrix, "ours", client=client, program=folder / "none").wait()
    # Another version of the package, and none at all.
    client.run(setattr_of_package, "0.0.1")
    try:
        with pytest.raises(extantfs.SweepError, match="^worker tcp://.*is extantfs 0.0.1, and the"):
            extantfs.sweep(matrix, "ours", client=client)
    finally:
        client.run(setattr_of_package, extantfs.__version__)
    client.run(without_package, True)
    try:
        with pytest.raises(extantfs.SweepError, match="^worker tcp://.*has no extantfs"):
            extantfs.sweep(matrix, "ours", client=client)
    finally:
        client.run(without_package, False)
    assert extantfs.sweep(matrix, "ours", client=client).wait().done == 1


def setattr_of_package(version):
    import extantfs

    extantfs.__version__ = version


def without_package(is_gone):
    import sys

    if is_gone:
        sys.extantfs_before = {n: m for n, m in sys.modules.items() if n.startswith("extantfs")}
        for name in sys.extantfs_before:
            sys.modules[name] = None
    else:
        sys.modules.update(sys.extantfs_before)


def test_a_directory_that_workers_do_not_see(folder, client):
    client.run(see_soon)
    matrix = {"jobs": [{"kind": "check", "over": {"image": "a.image"}}]}
    said = "^worker tcp://.*memory://unseen/plans/.*a directory that all workers share"
    with pytest.raises(extantfs.SweepError, match=said):
        # A store in the memory of a process is no other process's.
        extantfs.sweep(matrix, "memory://unseen", client=client).wait()


def see_soon():
    from extantfs._sweep import batch

    batch._SEEN_SECONDS = 0.5


def test_a_directory_that_is_broken(folder, client):
    matrix = {"jobs": [{"kind": "check", "over": {"image": "a.image"}}]}
    (folder / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        extantfs.sweep(matrix, "file", client=client)
    with pytest.raises(ValueError, match="holds sub, which no sweep has"):
        extantfs.sweep(matrix, "tree", client=client)
    (folder / "ours").mkdir()
    (folder / "ours/plans").mkdir()
    (folder / "ours/results").mkdir()
    for number in range(256):
        (folder / f"ours/results/{number:02x}").write_text("no folder")
    with pytest.raises(OSError, match="ours/results/"):
        extantfs.sweep(matrix, "ours", client=client).wait()


def test_two_sweeps_in_one_directory(folder, client):
    matrix = lab_runs("post-0", 9)
    first = extantfs.sweep(matrix, "ours", client=client)
    for words in [{"client": client}, {}]:
        with pytest.raises(extantfs.InUseError, match="is at work in it"):
            extantfs.sweep(matrix, "ours", **words).wait()
    began = time.monotonic()
    first.cancel()
    assert first.is_cancelled and time.monotonic() - began < 30
    until = time.monotonic() + 30
    while client.processing() and any(client.processing().values()) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(client.processing().values())


def test_resources_that_the_workers_declare(folder):
    distributed = library("distributed")
    matrix = {"jobs": [{"kind": "check", "over": {"image": ["a.image", "b.image"]}}]}
    with cluster(n_workers=1, resources={"memory": 4e9, "CPU": 1}) as local:
        with distributed.Client(local) as client:
            ours = extantfs.sweep(matrix, "ours", client=client, memory="3G").wait()
            assert ours.done == 2
            # What no worker has never runs.
            never = extantfs.sweep(matrix, "never", client=client, memory="8G")
            time.sleep(1)
            assert not never.has_ended and never.done == 0
            never.cancel()
            asked = extantfs.sweep(matrix, "asked", client=client, resources={"CPU": 1}).wait()
            assert asked.done == 2


def test_a_store_in_memory(folder, threads, tmp_path):
    fsspec = library("fsspec")
    (folder / "matrix.toml").write_text(mixed())
    ours = extantfs.sweep("matrix.toml", "memory://night", client=threads)
    results = list(ours.results)
    theirs = serial(ours.jobs, "theirs")
    memory = fsspec.filesystem("memory")
    paths = memory.find("/night")
    found = {path.removeprefix("/night/"): memory.cat_file(path) for path in paths}
    plans = [name for name in found if name.startswith("plans/")]
    assert {name: text for name, text in found.items() if name not in plans} == theirs
    assert [os.path.basename(name) for name in plans] == os.listdir("theirs/plans")
    assert len(ours.columns()[0].values) > len(results)
    again = extantfs.sweep("matrix.toml", "memory://night", client=threads).wait()
    assert again.there == len(results)
    targets = {"jobs": [{"kind": "tar", "target": "x/{image}.tar", "over": {"image": "a.image"}}]}
    with pytest.raises(ValueError, match="has a target"):
        extantfs.sweep(targets, "memory://other", client=threads)
    memory.rm("/night", recursive=True)


@pytest.fixture
def store(monkeypatch):
    """An object store on this machine: options for fsspec, and the file system."""
    library("s3fs")
    moto = library("moto.server")
    fsspec = library("fsspec")
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]:
        monkeypatch.setenv(name, "none")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        options = {"endpoint_url": f"http://{host}:{port}", "key": "none", "secret": "none"}
        yield options, fsspec.filesystem("s3", **options)
    finally:
        server.stop()


def test_images_and_results_in_an_object_store(folder, client, store):
    options, s3 = store
    if not s3.exists("bucket"):
        s3.mkdir("bucket")
    for name in ["a.image", "b.image"]:
        s3.put_file(name, f"bucket/{name}")
    words = {"storage_options": options, "cache": folder / "cache"}
    (folder / "matrix.toml").write_text(
        "# 's3://bucket/of a comment'\n[[jobs]]\nkind = ['check', 'layout']\n"
        "over = { image = ['s3://bucket/a.image', \"s3://bucket/b.image\"] }\n"
        "[[jobs]]\nkind = 'build'\nover = { source = 'tree', size = ['8M', '9M'] }\n"
    )
    ours = extantfs.sweep("matrix.toml", "s3://bucket/night", client=client, **words).wait()
    assert ours.failed == () and ours.done == 6
    image = str(folder / "cache/s3/bucket/a.image")
    assert ours.jobs[0].words == ("check", image)
    theirs = serial(ours.jobs, "theirs")
    s3.invalidate_cache()
    paths = [path for path in s3.find("bucket/night") if "/plans/" not in path]
    assert {path.removeprefix("bucket/night/"): s3.cat_file(path) for path in paths} == theirs
    assert ours.frame().shape[0] == 6
    # A worker without the image, and one with an older one, fetch it.
    lines = [job.line for job in ours.jobs]
    os.remove(image)
    pathlib.Path(folder / "cache/s3/bucket/b.image").write_bytes(b"older")
    again = extantfs.sweep(lines, "s3://bucket/again", client=client, **words).wait()
    assert again.failed == () and again.done == 6
    # One that changed in the store fails by name; planned anew, it is another job.
    s3.put_file("b.image", "bucket/a.image")
    s3.invalidate_cache()
    os.remove(image)
    late = extantfs.sweep(lines, "s3://bucket/late", client=client, **words).wait()
    assert {one.reason for one in late.failed} == {f"{image}: has changed since the plan was made"}
    assert len(late.failed) == 2 and late.done == 4
    anew = extantfs.sweep("matrix.toml", "s3://bucket/night", client=client, **words).wait()
    assert (anew.done, anew.there) == (6, 4)
    for address, error, said in [
        ("s3://bucket/none", FileNotFoundError, "none"),
        ("s3://bucket/*.image", ValueError, "name each image"),
        ("s3://bucket/../x", ValueError, "is no address of an image"),
        ("simplecache::s3://bucket/a.image", ValueError, "a chain of addresses"),
    ]:
        with pytest.raises(error, match=said):
            matrix = {"jobs": [{"kind": "check", "over": {"image": address}}]}
            extantfs.sweep(matrix, client=client, **words)


def test_the_example_of_the_document_runs(folder):
    library("distributed")
    document = pathlib.Path(__file__).parents[2] / "docs/FLEETS.md"
    (example,) = re.findall(r"```python\n(.*?)```", document.read_text(), re.S)
    (folder / "matrix.toml").write_text(mixed(1))
    # Workers are processes, which begin as this one does.
    (folder / "example.py").write_text(
        "if __name__ == '__main__':\n" + textwrap.indent(example, "    ")
    )
    done = subprocess.run([sys.executable, "example.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_jobs_have_the_time_that_their_plan_had(folder, client, monkeypatch):
    """The workers were started without SOURCE_DATE_EPOCH."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    block = {"kind": "build", "with": {"source": "tree"}, "over": {"size": ["8M", "9M"]}}
    ours = extantfs.sweep({"jobs": [block]}, "ours", client=client).wait()
    assert ours.failed == () and ours.jobs[0].details["epoch"] == "1700000000"
    assert kept("ours") == serial(ours.jobs, "theirs")


# A worker that takes the Dask worker with it, at one of the jobs.
DEADLY = """#!{python}
import os, signal, subprocess, sys
words = sys.argv[1:]
at = words.index("--of")
del words[at : at + 2]
pipes = {{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}}
real = subprocess.Popen([sys.executable, "-m", "extantfs", *words], **pipes)
print(real.stdout.readline(), end="", flush=True)
for line in sys.stdin:
    if any(f'"seed":{{seed}}' in line for seed in (5, 13, 14)):
        os.kill(os.getppid(), signal.SIGKILL)
    real.stdin.write(line)
    real.stdin.flush()
    print(real.stdout.readline(), end="", flush=True)
"""


def test_jobs_that_end_their_dask_workers_fail_alone(folder):
    """Not those that ran beside them, however often that was."""
    distributed = library("distributed")
    (folder / "deadly").write_text(DEADLY.format(python=sys.executable))
    (folder / "deadly").chmod(0o755)
    with library("dask").config.set({"distributed.scheduler.allowed-failures": 1}):
        with cluster() as local, distributed.Client(local) as client:
            ours = extantfs.sweep(
                lab_runs("small.toml", 30), client=client, program=folder / "deadly", retries=0
            ).wait()
    failed = {one.label.split("seed=")[1].split()[0]: one.reason for one in ours.failed}
    assert sorted(failed) == ["13", "14", "5"] and ours.done == 27
    assert all("worker" in reason for reason in failed.values())
