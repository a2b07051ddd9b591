"""Notebooks in examples/ run unmodified, cell by cell, and are committed without outputs."""

import json
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")
for name in ("duckdb", "polars"):
    pytest.importorskip(name, reason=f"{name} is not installed")

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "examples").glob("**/*.ipynb"))


def test_notebooks_exist() -> None:
    assert "tour.ipynb" in {path.name for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_has_no_outputs(path: Path) -> None:
    page = json.loads(path.read_text())
    nbformat.validate(page)
    assert page["metadata"].keys() == {"kernelspec", "language_info"}, "nothing of one machine's Python"
    for cell in page["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_runs(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}})
    # Errors in cells are raised. The notebook asserts its own results.
    client.execute()
    ran = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(ran) > 8
    errors = [out for cell in ran for out in cell.outputs if out.output_type == "stream" and out.name == "stderr"]
    assert [out.text for out in errors if "IPKernelApp" not in out.text] == []


def test_results_are_tables_in_the_notebook(tmp_path: Path) -> None:
    page = nbformat.v4.new_notebook()
    code = """
from samsarrow import Admin, show
from samsarrow.testing import Broker
import pyarrow as pa

broker = Broker(topics={"orders": 2})
admin = Admin(bootstrap_servers=broker.bootstrap_servers)
"""
    last = ["show(pa.table({'key': [b'k']}))", "admin.list_topics()", "admin.describe_topics(['orders'])['orders']",
            "admin.metrics()", "admin.close(); broker.close()"]  # fmt: skip
    page.cells = [nbformat.v4.new_code_cell(source) for source in [code, *last]]
    nbclient.NotebookClient(page, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [cell.outputs[0].data["text/html"] for cell in page.cells[1:-1]]
    assert all(html.startswith("<div><table>") for html in shown)
    assert ["<td>k</td>" in shown[0], "orders" in shown[1], "orders" in shown[2], "AdminMetrics" in shown[3]] == [
        True
    ] * 4
