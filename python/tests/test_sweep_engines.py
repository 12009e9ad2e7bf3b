"""The files for other engines that `extant sweep submit` writes: judged, and run."""

import os
import pathlib
import shlex
import subprocess
import sys

import extantfs
import pytest
from conftest import needed
from sweeping import SMALL, command, kept, library

KINDS = ["slurm", "hyperqueue", "kubernetes", "dask-kubernetes"]
SHARDS = 3
JOBS = 8


def filled(kind):
    """The file of `extant sweep submit`, for the plan in this folder."""
    words = ["--shards", SHARDS, "--image", "registry.invalid/extant:0.1", "--name", "sweep-0a1b"]
    text = command("sweep", "submit", "jobs.jsonl", "night", "--to", kind, *map(str, words))
    return text.decode()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a plan, and the results that all engines have to give."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    # The command of the package, whatever else the host has.
    found = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", found)
    (tmp_path / "small.toml").write_text(SMALL)
    over = {"drive": ["ide-2001-7200", "ssd-nvme"], "seed": {"from": 1, "to": 4}}
    block = {"kind": "lab run", "with": {"scenario": "small.toml"}, "over": over}
    jobs = extantfs.sweep({"jobs": [block]}, "wanted").wait().jobs
    assert len(jobs) == JOBS
    (tmp_path / "jobs.jsonl").write_text("".join(f"{job.line}\n" for job in jobs))
    return tmp_path


def all_done():
    """Every job has the result that it has to have."""
    assert kept("night") == kept("wanted")
    assert b'"left":0' in command("sweep", "status", "night", "--json")


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_text_for_a_screen(kind, folder):
    text = filled(kind)
    assert max(map(len, text.splitlines())) <= 100
    if text.startswith("#!"):
        done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["slurm", "hyperqueue"])
def test_a_script_is_clean(kind, folder):
    beside = pathlib.Path(sys.executable).parent / "shellcheck"
    shellcheck = beside if beside.exists() else needed("shellcheck")
    path = folder / kind
    path.write_text(filled(kind))
    done = subprocess.run([shellcheck, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_an_array_of_slurm(folder):
    """Each task of the array, with what Slurm has in its environment; one ends early."""
    text = filled("slurm")
    assert f"#SBATCH --array=1-{SHARDS}\n" in text and "#SBATCH --mem=2048M\n" in text
    (folder / "slurm.sh").write_text(text)
    for task in [1, 2, 2, 3]:
        env = {
            **os.environ,
            "SLURM_ARRAY_TASK_ID": str(task),
            "SLURM_SUBMIT_DIR": str(folder),
        }
        done = subprocess.run(["sh", folder / "slurm.sh"], env=env, cwd="/", capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
    all_done()


def test_the_script_for_hyperqueue(folder):
    """What it submits, with each task run here."""
    (folder / "hyperqueue.sh").write_text(filled("hyperqueue"))
    (folder / "bin").mkdir()
    (folder / "bin/hq").write_text(
        '#!/bin/sh\necho "$@" > submitted\nwhile [ "$1" != -- ]; do shift; done\nshift\n'
        f'for HQ_TASK_ID in $(seq {SHARDS}); do export HQ_TASK_ID; "$@" || exit; done\n'
    )
    (folder / "bin/hq").chmod(0o755)
    env = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "hyperqueue.sh"], env=env, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    said = (folder / "submitted").read_text()
    assert said.startswith(
        f"submit --wait --name sweep-0a1b --array 1-{SHARDS} --cpus 1 --resource mem=2048 -- sh -c"
    )
    all_done()


@pytest.mark.heavy
def test_a_server_of_hyperqueue(folder):
    """A server and two workers of HyperQueue, which run the tasks that the script submits."""
    cluster = library("hyperqueue.cluster")
    hyperqueue = library("hyperqueue")
    words_of_a_task = shlex.split(filled("hyperqueue").split(" -- \\\n", 1)[1])
    with cluster.LocalCluster(server_dir=str(folder / "server")) as local:
        for _ in range(2):
            local.start_worker(cluster.WorkerConfig(cores=1))
        client = local.client()
        job = hyperqueue.Job()
        for task in range(1, SHARDS + 1):
            # Tasks of the library begin with 0, those of an array where it says.
            words = ["env", f"HQ_TASK_ID={task}", *words_of_a_task]
            output = {"stdout": folder / f"{task}.out", "stderr": folder / f"{task}.err"}
            env = {"PATH": os.environ["PATH"]}
            job.program(words, cwd=folder, env=env, **output)
        client.wait_for_jobs([client.submit(job)])
    all_done()


@pytest.mark.heavy
def test_a_job_of_kubernetes(folder):
    yaml = library("yaml")
    validate = library("kubernetes_validate")
    job = yaml.safe_load(filled("kubernetes"))
    validate.validate(job, validate.latest_version(), strict=True)
    spec = job["spec"]
    assert (spec["completionMode"], spec["completions"]) == ("Indexed", SHARDS)
    wrong = {**job, "spec": {**spec, "completionsMode": "Indexed"}}
    with pytest.raises(validate.ValidationError):
        validate.validate(wrong, validate.latest_version(), strict=True)


@pytest.mark.heavy
def test_the_words_of_a_pod(folder):
    """The command of the pod, for each index."""
    yaml = library("yaml")
    pod = yaml.safe_load(filled("kubernetes"))["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    words = container["command"]
    for index in range(SHARDS):
        env = {**os.environ, "JOB_COMPLETION_INDEX": str(index)}
        done = subprocess.run(words, env=env, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
    all_done()


@pytest.mark.heavy
def test_a_cluster_of_dask_on_kubernetes(folder):
    yaml = library("yaml")
    jsonschema = library("jsonschema")
    package = pathlib.Path(library("dask_kubernetes").__file__).parent
    path = "operator/deployment/helm/dask-kubernetes-operator/crds/daskcluster.yaml"
    definition = yaml.safe_load((package / path).read_text())
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    cluster = yaml.safe_load(filled("dask-kubernetes"))
    assert cluster["apiVersion"] == f"{definition['spec']['group']}/v1"
    assert cluster["kind"] == definition["spec"]["names"]["kind"]
    jsonschema.validate(cluster, schema)
    unknown = list(beyond(schema, cluster, ""))
    assert unknown == []
    cluster["spec"]["worker"]["replicas"] = "three"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(cluster, schema)


def beyond(schema, value, where):
    """Members that a schema of Kubernetes does not name: the server would drop them."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(value, dict) and "properties" in schema:
        for key, one in value.items():
            if key in schema["properties"]:
                yield from beyond(schema["properties"][key], one, f"{where}.{key}")
            elif where:
                yield f"{where}.{key}"
    if isinstance(value, list):
        for one in value:
            yield from beyond(schema.get("items", {}), one, where)
