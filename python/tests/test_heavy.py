"""What reads through fsspec: pandas, pyarrow, dask, and an image in an object store."""

import importlib
import os

import extantfs
import pytest

pytestmark = pytest.mark.heavy


def library(name):
    """At the gate it has to be there."""
    try:
        return importlib.import_module(name)
    except ImportError:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no {name}")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """An image with a table in two forms."""
    pandas = library("pandas")
    library("pyarrow")
    folder = tmp_path_factory.mktemp("tables")
    table = pandas.DataFrame({"a": range(1000), "b": [str(one) for one in range(1000)]})
    (folder / "tree").mkdir()
    table.to_csv(folder / "tree/table.csv", index=False)
    table.to_parquet(folder / "tree/table.parquet")
    extantfs.build(folder / "tree", folder / "disk.img", free=8 << 20)
    return folder / "disk.img", table


def test_pandas(tables):
    pandas = library("pandas")
    disk, table = tables
    assert pandas.read_csv(f"ext4://table.csv::file://{disk}", dtype={"b": str}).equals(table)
    assert pandas.read_parquet(f"ext4://table.parquet::file://{disk}").equals(table)
    table.to_csv(f"ext4://out/again.csv::file://{disk}", index=False)
    with extantfs.open(disk) as image:
        assert (image / "out/again.csv").read_bytes() == (image / "table.csv").read_bytes()
        assert image.check().is_clean


def test_pyarrow(tables):
    library("pyarrow")
    parquet = library("pyarrow.parquet")
    fsspec = library("fsspec")
    disk, table = tables
    fs = fsspec.filesystem("ext4", fo=str(disk))
    assert parquet.read_table("table.parquet", filesystem=fs).num_rows == 1000
    dataset = library("pyarrow.dataset").dataset("table.parquet", filesystem=fs)
    assert dataset.count_rows() == 1000


def test_dask(tables):
    library("dask")
    frame = library("dask.dataframe")
    disk, table = tables
    read = frame.read_csv(f"ext4://*.csv::file://{disk}", blocksize=2000)
    assert read.npartitions > 1
    assert read["a"].sum().compute(scheduler="threads") == table["a"].sum()
    assert read["a"].sum().compute(scheduler="processes", num_workers=2) == table["a"].sum()


def test_an_object_store(tables, monkeypatch):
    """An image in a store on this machine, read piece by piece."""
    library("s3fs")
    moto = library("moto.server")
    fsspec = library("fsspec")
    disk, _ = tables
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]:
        monkeypatch.setenv(name, "none")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        options = {"endpoint_url": f"http://{host}:{port}", "key": "none", "secret": "none"}
        store = fsspec.filesystem("s3", **options)
        store.mkdir("bucket")
        store.put_file(str(disk), "bucket/disk.img")
        address = "ext4://table.csv::s3://bucket/disk.img"
        with fsspec.open(address, "rb", s3=options) as file:
            assert file.readline() == b"a,b\n"
    finally:
        server.stop()
