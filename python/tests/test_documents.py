"""The examples of docs/PYTHON.md run."""

import pathlib
import re

import pytest

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "PYTHON.md"


def test_the_examples_run(tmp_path, monkeypatch, capsys):
    pytest.importorskip("fsspec")
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.S)
    assert len(examples) == 10
    names = {}
    for example in examples:
        exec(compile(example, str(DOCUMENT), "exec"), names)
    said = capsys.readouterr().out
    assert "['/data/table.csv']" in said and "other" in said
    assert (tmp_path / "out/etc/hostname").read_text() == "other\n"


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch):
    import extantfs

    monkeypatch.chdir(tmp_path)
    entries = [extantfs.Entry("/etc/passwd", "root\n")]
    extantfs.build(entries, "disk.img", free=8 << 20)
    readme = (DOCUMENT.parents[1] / "README.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", readme, re.S)
    exec(compile(example, "README.md", "exec"), {"extantfs": extantfs})
    with extantfs.open("disk.img") as image:
        assert (image / "etc/hostname").read_text() == "ROOT\n"
