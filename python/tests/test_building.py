"""Images that are built."""

import io
import json
import hashlib
import tarfile
import uuid

import extantfs
import pytest
from conftest import entries, judged
from extantfs import Entry


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "rootfs"
    (folder / "etc").mkdir(parents=True)
    (folder / "etc/hostname").write_text("folder\n")
    (folder / "bin").symlink_to("usr/bin")
    return folder


def test_a_folder(tree, tmp_path):
    built = extantfs.build(tree, tmp_path / "disk.img", owner=(0, 0), newest=10**9)
    assert built.bytes == (tmp_path / "disk.img").stat().st_size and built.image is None
    assert built.warnings == ()
    judged(tmp_path / "disk.img")
    with extantfs.open(tmp_path / "disk.img") as image:
        assert image.diff(tree, ignore=["owner", "times"]) == []
    again = extantfs.build(str(tree), owner=(0, 0), newest=10**9)
    assert again.image == (tmp_path / "disk.img").read_bytes()
    with pytest.raises(FileExistsError):
        extantfs.build(tree, tmp_path / "disk.img")
    extantfs.build(tree, tmp_path / "disk.img", replace=True, free=1 << 20)
    assert (tmp_path / "disk.img").stat().st_size > built.bytes


def test_options_reach_the_image(tmp_path):
    name = uuid.UUID("6f4c7a51-93f0-4c7e-8a1d-2b6f3c9d8e10")
    for given in (name, str(name), name.bytes):
        built = extantfs.build(
            None, profile="ext2", size=4 << 20, block_size=1024, label="x", uuid=given
        )
        assert built.uuid == name.hex and built.bytes == 4 << 20 and not built.has_journal
    with extantfs.open(built.image) as image:
        assert image.facts.label == "x" and image.facts.uuid == name.hex
    for wrong in [{"profile": "xfs"}, {"label": "x" * 17}, {"block_size": 5}]:
        with pytest.raises(OSError):
            extantfs.build(None, **wrong)
    with pytest.raises(ValueError):
        extantfs.build(None, free=1, size=1)
    with pytest.raises(OSError) as error:
        extantfs.build(Entry("/x", b"x" * (1 << 20)), size=256 << 10)
    assert error.value.errno == 28


def test_entries_folders_and_archives_are_laid_over_each_other(tree, tmp_path):
    archive = tmp_path / "layer.tar"
    with tarfile.open(archive, "w") as tar:
        member = tarfile.TarInfo("etc/archived")
        member.size = 3
        tar.addfile(member, io.BytesIO(b"tar"))

    def sources():
        yield Entry("/first", b"1")
        yield Entry("/etc/hostname", "entry\n")
        yield tree
        yield archive
        yield Entry("/stream", io.BytesIO(b"stream"), mode=0o4755)
        yield Entry("/last", symlink="first")

    built = extantfs.build(sources())
    with extantfs.open(built.image) as image:
        assert (image / "etc/hostname").read_text() == "folder\n"
        assert (image / "etc/archived").read_bytes() == b"tar"
        assert (image / "stream").read_bytes() == b"stream"
        assert (image / "stream").stat().st_mode == 0o104755
        assert (image / "last").read_bytes() == b"1"
        assert image.check().is_clean


def test_a_generator_that_raises(tmp_path):
    def broken():
        yield Entry("/a", b"1")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        extantfs.build(broken(), tmp_path / "disk.img")

    class Broken(io.RawIOBase):
        def read(self, length=-1):
            raise ZeroDivisionError

    with pytest.raises(OSError) as error:
        extantfs.build([Entry("/a", Broken())], tmp_path / "disk.img")
    assert isinstance(error.value.__cause__, ZeroDivisionError)
    assert not (tmp_path / "disk.img").exists()
    for wrong in [
        [Entry("/a/../b", b"")],
        [Entry("/a", kind="what")],
        [Entry("/a", link="/none")],
    ]:
        with pytest.raises(OSError):
            extantfs.build(wrong)
    with pytest.raises(ValueError):
        extantfs.build([Entry("/a", b"", symlink="b")])
    with pytest.raises(TypeError):
        extantfs.build(7)
    with pytest.raises(FileNotFoundError):
        extantfs.build(tmp_path / "none")


def layout(folder):
    """A container image of one layer, in a folder."""
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)

    def blob(content):
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"digest": f"sha256:{digest}", "size": len(content)}

    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w") as tar:
        member = tarfile.TarInfo("etc/os")
        member.size = 2
        tar.addfile(member, io.BytesIO(b"os"))
    layer = blob(memory.getvalue())
    config = {
        "architecture": "amd64",
        "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    }
    kind = "application/vnd.oci.image"
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{kind}.manifest.v1+json",
        "config": {"mediaType": f"{kind}.config.v1+json", **blob(json.dumps(config).encode())},
        "layers": [{"mediaType": f"{kind}.layer.v1.tar", **layer}],
    }
    entry = {
        "mediaType": manifest["mediaType"],
        **blob(json.dumps(manifest).encode()),
        "annotations": {"org.opencontainers.image.ref.name": "latest"},
    }
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    (folder / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))


def test_a_container_image(tmp_path):
    layout(tmp_path / "layout")
    for word in [f"oci:{tmp_path}/layout", f"oci:{tmp_path}/layout:latest"]:
        with extantfs.open(extantfs.build(word).image) as image:
            assert (image / "etc/os").read_bytes() == b"os"
    # Both may have colons.
    (tmp_path / "layout").rename(tmp_path / "lay:out")
    layout(tmp_path / "lay")
    for word in ["lay:out", "lay:out:latest", "lay"]:
        assert extantfs.build(f"oci:{tmp_path}/{word}").image is not None
    with pytest.raises(OSError):
        extantfs.build(f"oci:{tmp_path}/lay:out:other")
    with pytest.raises(ValueError):
        extantfs.build("oci:")


def test_the_same_bytes():
    assert extantfs.build(entries()).image == extantfs.build(entries()).image
