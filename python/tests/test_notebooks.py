"""The notebooks: kept without what they printed, and each runs from its first cell to its last."""

import json
import pathlib

import pytest

FOLDER = pathlib.Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_is_one_for_each_post_and_one_of_ones_own():
    names = [path.stem for path in NOTEBOOKS]
    assert names == ["own-question", *(f"post-{number}" for number in range(5))]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_clean_and_judges_what_it_shows(path):
    book = json.loads(path.read_text())
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    for cell in cells:
        assert cell["outputs"] == [] and cell["execution_count"] is None
        compile("".join(cell["source"]), path.name, "exec")
    assert any("assert " in line for line in cells[-1]["source"])
    assert any("matplotlib" in line for cell in cells for line in cell["source"])


@pytest.mark.heavy
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    nbclient.NotebookClient(book, timeout=900, kernel_name="python3").execute()
    shown = [
        output
        for cell in book.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    assert shown, "a plot"
