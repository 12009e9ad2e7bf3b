"""Images that are mended, that this is taken back, and that are made ready for use."""

import dataclasses
import errno
import io
import subprocess
import threading

import extantfs
import pytest
from conftest import judged, needed

def damage(path, *requests):
    """Changes a volume by debugfs."""
    for request in requests:
        words = [needed("debugfs"), "-w", "-R", request, str(path)]
        subprocess.run(words, capture_output=True, check=True)
    words = [needed("e2fsck"), "-fn", str(path)]
    assert subprocess.run(words, capture_output=True).returncode == 4, requests


@pytest.fixture
def counted(disk):
    """A volume with a wrong count, and a block in use that is said to be free."""
    with extantfs.open(disk) as image:
        at = image.facts.blocks // 2
    damage(disk, "ssv free_blocks_count 7", "freeb 100", f"setb {at}")
    return disk


@pytest.fixture
def costly(disk):
    """One whose repair costs a name, and that has a wrong number of links too."""
    damage(disk, "clri /dir/below/deep.txt", "sif /etc/hostname links_count 3", "unlink /etc/hostname")
    return disk


def names(path):
    return sorted(one.name for one in path.parent.iterdir())


def test_a_volume_is_mended_and_this_is_taken_back(counted):
    before = counted.read_bytes()
    done = extantfs.repair(counted)
    assert isinstance(done, extantfs.Repaired) and done.is_clean and done.exit_code == 1
    assert done.blocks > 0 and done.losses == () and done.omitted == 0 and done.rounds >= 2
    assert not done.found.is_clean and done.left.is_clean and done.image is None
    codes = {change.problem.code for change in done.changes}
    assert codes and codes <= set(done.found.counts), codes
    assert all(isinstance(change, extantfs.Change) for change in done.changes)
    assert {change.round for change in done.changes} <= set(range(1, done.rounds + 1))
    assert done.undo == str(counted.with_name(".disk.img.extant-undo"))
    judged(counted)
    assert extantfs.undo(counted) == done.blocks
    assert counted.read_bytes() == before and names(counted) == ["disk.img"]
    with pytest.raises(OSError, match="no repair to undo"):
        extantfs.undo(counted)
    with pytest.raises(dataclasses.FrozenInstanceError):
        done.blocks = 0


def test_a_dry_run_says_what_would_be_lost_and_writes_nothing(costly):
    before = costly.read_bytes()
    costly.chmod(0o400)
    with extantfs.open(costly):
        dry = extantfs.repair(costly, scope="all", dry_run=True)
        # Others read it meanwhile; a repair has to be alone.
        with pytest.raises(extantfs.InUseError):
            costly.chmod(0o600)
            extantfs.repair(costly)
    assert dry.is_clean and dry.exit_code == 1 and dry.undo is None and dry.blocks == 0
    assert dry.losses == ("the name",)
    (lost,) = [change for change in dry.changes if change.loss]
    assert lost.problem.name == "deep.txt" and str(lost).endswith("; lost: the name")
    safe = extantfs.repair(costly, dry_run=True)
    assert safe.exit_code == 4 and not safe.is_clean and safe.losses == ()
    assert safe.left.problems and len(safe.changes) < len(dry.changes)
    for source in [before, io.BytesIO(before)]:
        assert extantfs.repair(source, scope="all", dry_run=True).changes == dry.changes
        assert extantfs.repair(source, scope="all", dry_run=True).image is None
    assert costly.read_bytes() == before and names(costly) == ["disk.img"]
    done = extantfs.repair(costly, scope="all", undo=False)
    assert done.changes == dry.changes and done.undo is None and names(costly) == ["disk.img"]
    judged(costly)


def test_what_a_scope_does_not_allow_is_left(costly):
    before = costly.read_bytes()
    preened = extantfs.repair(costly, scope="preen")
    assert (preened.exit_code, preened.blocks, preened.undo) == (4, 0, None)
    assert costly.read_bytes() == before and names(costly) == ["disk.img"]
    safe = extantfs.repair(costly)
    assert safe.exit_code == 4 and safe.blocks > 0 and safe.losses == ()
    assert safe.left == extantfs.check(costly)
    for scope in ["", "Safe", "everything"]:
        with pytest.raises(ValueError, match="preen, safe and all"):
            extantfs.repair(costly, scope=scope)


def test_bytes_come_back_mended(counted):
    before = counted.read_bytes()
    done = extantfs.repair(before)
    assert done.image is not None and done.undo is None and done.is_clean
    counted.write_bytes(done.image)
    judged(counted)
    assert extantfs.repair(done.image).image is None
    healed = extantfs.heal(before, check=True)
    assert healed.image is not None and extantfs.check(healed.image).is_clean
    # An object has no place beside it for a log.
    with pytest.raises(OSError) as refused:
        extantfs.repair(io.BytesIO(before))
    assert refused.value.errno == errno.EINVAL and "place" in str(refused.value)


def test_what_is_in_use_or_changed_is_refused(counted):
    with extantfs.open(counted, "r+") as image:
        for call in [
            lambda: extantfs.repair(counted),
            lambda: extantfs.heal(counted, check=True),
            lambda: extantfs.undo(counted),
        ]:
            with pytest.raises(extantfs.InUseError) as refused:
                call()
            assert refused.value.errno == errno.EBUSY and str(counted) in str(refused.value)
        assert not image.closed
    done = extantfs.repair(counted)
    with extantfs.open(counted, "r+") as image, image.transaction() as t:
        t.write("/new", b"new")
    changed = counted.read_bytes()
    with pytest.raises(OSError, match="changed after the repair"):
        extantfs.undo(counted)
    assert counted.read_bytes() == changed and done.undo is not None


def test_what_is_no_volume_raises(tmp_path):
    path = tmp_path / "zeros.img"
    path.write_bytes(bytes(1 << 20))
    for call in [
        lambda: extantfs.repair(path),
        lambda: extantfs.repair(path, scope="all", dry_run=True),
        lambda: extantfs.heal(path),
    ]:
        with pytest.raises(extantfs.NotAVolumeError) as refused:
            call()
        assert refused.value.filename == str(path)
    assert path.read_bytes() == bytes(1 << 20) and names(path) == ["zeros.img"]
    for call in [extantfs.repair, extantfs.undo, extantfs.heal]:
        with pytest.raises(FileNotFoundError):
            call(tmp_path / "none.img")
        with pytest.raises(TypeError):
            call(5)
        with pytest.raises(TypeError, match="patition"):
            call(path, patition="1")


def test_the_volume_may_be_a_part_of_the_image(counted, tmp_path):
    volume, path = counted.read_bytes(), tmp_path / "whole.img"
    path.write_bytes(bytes(1 << 20) + volume + bytes(1 << 20))
    before = path.read_bytes()
    assert extantfs.repair(path, offset=1 << 20).is_clean
    after = path.read_bytes()
    assert after != before and len(after) == len(before)
    assert after[: 1 << 20] == after[-1 << 20 :] == bytes(1 << 20)
    assert extantfs.check(f"{path}@@1M").is_clean
    assert extantfs.undo(f"{path}@@1M") > 0
    assert path.read_bytes() == before


def test_a_clean_image_is_not_written(disk):
    before, looked = disk.read_bytes(), disk.stat()
    healed = extantfs.heal(disk)
    assert healed == extantfs.Healed(name=str(disk), state="clean", exit_code=0)
    checked = extantfs.heal(disk, check=True)
    assert checked.state == "repaired" and checked.exit_code == 0 and checked.blocks == 0
    assert checked.repaired is not None and checked.repaired.changes == ()
    assert checked.reason == "a check was asked for"
    done = extantfs.repair(disk)
    assert (done.exit_code, done.blocks, done.undo, done.changes) == (0, 0, None, ())
    assert disk.read_bytes() == before and names(disk) == ["disk.img"]
    assert disk.stat().st_mtime_ns == looked.st_mtime_ns


def test_an_image_that_was_not_unmounted_is_recovered(disk):
    before = disk.read_bytes()
    commands = disk.with_name("commands")
    with extantfs.open(disk) as image:
        at = image.facts.blocks - 100
    commands.write_text(f"jo\njw -b {at} /dev/zero\njc\n")
    words = [needed("debugfs"), "-w", "-f", str(commands), str(disk)]
    subprocess.run(words, capture_output=True, check=True)
    commands.unlink()
    waiting = disk.read_bytes()
    assert waiting != before
    dry = extantfs.repair(disk, dry_run=True)
    assert dry.is_clean and dry.blocks == 0 and disk.read_bytes() == waiting
    healed = extantfs.heal(disk, undo=True)
    assert healed.state == "recovered" and healed.exit_code == 0 and healed.blocks > 0
    assert healed.repaired is None and healed.undo is not None
    assert extantfs.heal(disk).state == "clean"
    judged(disk)
    assert extantfs.undo(disk) == healed.blocks
    assert disk.read_bytes() == waiting


def test_many_images_are_healed_at_once(content, tmp_path):
    paths = [tmp_path / f"{number}.img" for number in range(6)]
    for path in paths:
        path.write_bytes(content)
    damage(paths[2], "freeb 100", "ssv state 2")
    paths[3].write_bytes(b"no volume" * 1000)
    paths[4].unlink()
    found = extantfs.heal(paths)
    states = ["clean", "clean", "repaired", "failed", "failed", "clean"]
    assert [one.state for one in found] == states
    assert [one.name for one in found] == [str(path) for path in paths]
    assert [one.exit_code for one in found] == [0, 0, 1, 8, 8, 0]
    assert found[2].reason == "it is marked as having errors" and found[2].blocks > 0
    assert isinstance(found[3].error, extantfs.NotAVolumeError)
    assert isinstance(found[4].error, FileNotFoundError)
    assert extantfs.heal(()) == ()
    judged(paths[2])
    assert names(paths[0]) == [f"{number}.img" for number in [0, 1, 2, 3, 5]]


def test_other_threads_run_meanwhile(counted):
    """A file object is read by a thread of its own, which needs the interpreter."""
    content, seen = counted.read_bytes(), []

    class Slow(io.BytesIO):
        def read(self, size=-1):
            seen.append(threading.get_ident())
            return super().read(size)

    assert extantfs.repair(Slow(content), dry_run=True).is_clean
    assert seen and threading.get_ident() not in seen


def test_what_a_file_object_raises_is_the_cause(counted):
    class Failing(io.BytesIO):
        def read(self, size=-1):
            raise RuntimeError("planted")

    with pytest.raises(OSError) as refused:
        extantfs.repair(Failing(counted.read_bytes()), dry_run=True)
    assert isinstance(refused.value.__cause__, RuntimeError)


def test_another_size(disk):
    before = disk.read_bytes()
    with extantfs.open(disk) as image:
        names = [(str(at), below, files) for at, below, files in image.walk()]
    would = extantfs.resize(disk, 64 << 20, dry_run=True)
    assert disk.read_bytes() == before and would.blocks == 0
    grown = extantfs.resize(disk, 64 << 20)
    assert (grown.blocks_after, grown.image) == (would.blocks_after, None)
    assert disk.stat().st_size == grown.bytes_after == 64 << 20
    judged(disk)
    least = extantfs.resize(disk, "min")
    assert disk.stat().st_size == least.bytes_after < len(before)
    judged(disk)
    with extantfs.open(disk) as image:
        assert [(str(at), below, files) for at, below, files in image.walk()] == names
    of_bytes = extantfs.resize(before, "min")
    assert of_bytes.image is not None and len(of_bytes.image) == least.bytes_after
    for size in ("least", -1, 1 << 64, True):
        with pytest.raises(ValueError):
            extantfs.resize(disk, size)
    with pytest.raises(OSError) as caught:
        extantfs.resize(disk, 64 << 10)
    assert caught.value.errno == errno.ENOSPC


def test_without_what_was_deleted(disk, tmp_path):
    secret = b"SECRET of before"
    with extantfs.open(disk, "r+") as image:
        with image.transaction() as t:
            t.write("/gone", secret * 500)
        with image.transaction() as t:
            t.remove("/gone")
    before = disk.read_bytes()
    with extantfs.open(disk) as image:
        names = [(str(at), below, files) for at, below, files in image.walk()]
    would = extantfs.trim(disk, scrub=True, dry_run=True)
    assert disk.read_bytes() == before and secret in before
    done = extantfs.trim(disk, scrub=True)
    assert done == would and done.free_blocks > 0
    assert secret not in disk.read_bytes()
    judged(disk)
    with extantfs.open(disk) as image:
        assert [(str(at), below, files) for at, below, files in image.walk()] == names
    of_bytes = extantfs.trim(before, scrub=True)
    assert of_bytes.image is not None and secret not in of_bytes.image


def test_laid_out_anew(disk, tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/file").write_bytes(b"content" * 900)
    built, new = tmp_path / "built.img", tmp_path / "new.img"
    extantfs.build(tmp_path / "tree", built)
    done = extantfs.normalize(built, new)
    assert new.read_bytes() == built.read_bytes()
    assert (done.bytes, done.warnings) == (built.stat().st_size, ())
    with pytest.raises(FileExistsError):
        extantfs.normalize(built, new)
    packed = tmp_path / "packed.img"
    extantfs.repack(built, packed, first=["/file", "/none"])
    judged(packed)
    with extantfs.open(packed) as image:
        assert (image / "file").read_bytes() == b"content" * 900


def test_another_label_and_other_features(disk):
    before = disk.read_bytes()
    would = extantfs.tune(disk, label="root", features="^metadata_csum", dry_run=True)
    assert disk.read_bytes() == before and would.blocks == 0
    tuned = extantfs.tune(disk, label="root", features="^metadata_csum")
    assert tuned.changes == would.changes and tuned.blocks > 0 and tuned.image is None
    assert ("label", "sample", "root") in tuned.changes
    judged(disk)
    assert not any(what == "label" for what, _, _ in extantfs.tune(disk, "-c", "5").changes)
    extantfs.tune(disk, journal=False, uuid="random", reserved_percent=1.5)
    extantfs.tune(disk, journal=True)
    judged(disk)
    of_bytes = extantfs.tune(before, label="bytes")
    assert of_bytes.image is not None and len(of_bytes.image) == len(before)
    assert extantfs.tune(of_bytes.image, label="bytes").changes == ()
    for words in ((), ("-L",), ("-O", "nonsense"), ("what",)):
        with pytest.raises(OSError) as caught:
            extantfs.tune(disk, *words)
        assert caught.value.errno == errno.EINVAL
    with pytest.raises(extantfs.UnsupportedError):
        extantfs.tune(disk, features="inline_data")
