"""Modules loaded by `import samsarrow`, and its public names."""

import importlib.metadata
import subprocess
import sys

import pytest

import samsarrow


def modules_after(code: str) -> set[str]:
    found = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(found.stdout.split())


def heavy(code: str) -> set[str]:
    return {"pyarrow", "samsarrow._core"} & modules_after(code)


@pytest.mark.parametrize("code", ["import samsarrow", "import samsarrow.testing.pytest_plugin"])
def test_core_and_pyarrow_are_imported_lazily(code: str) -> None:
    assert heavy(code) == set()
    assert heavy("import samsarrow; samsarrow.Consumer") == {"pyarrow", "samsarrow._core"}


@pytest.mark.parametrize(
    "code", ["import samsarrow", "import samsarrow; samsarrow.read, samsarrow.write, samsarrow.aio"]
)
def test_adapters_of_engines_are_imported_lazily(code: str) -> None:
    packages = {name.partition(".")[0] for name in modules_after(code)}
    assert packages & {"ray", "daft", "datafusion", "dlt", "polars", "pandas", "duckdb"} == set()
    unused = {"samsarrow.integrations", "samsarrow.backup", "samsarrow.ray", "samsarrow.daft", "samsarrow.dlt"}
    assert modules_after(code) & unused == set()


def test_spark_workers_import_only_required_modules() -> None:
    """Spark starts a Python process for each part of a plan and for each stream, so imports of workers must be few."""
    pytest.importorskip("pyspark.sql.streaming.datasource", reason="PySpark 4.2 is not installed")
    ours = "samsarrow.spark, samsarrow.spark.stream, samsarrow.spark.fetch, samsarrow.spark.write_task"
    of_spark = "import pyspark.sql.worker.plan_data_source_read, pyspark.sql.streaming.python_streaming_source_runner"
    more = modules_after(f"{of_spark}, {ours}") - modules_after(f"{of_spark}, pyarrow")
    assert {"samsarrow.spark.fetch", "samsarrow._core"} <= more
    late = {"asyncio", "importlib.metadata", "pyarrow.compute", "samsarrow.admin", "samsarrow.admin_types"}
    assert late & more == set()


def test_topic_column_of_spark_tasks_does_not_import_pandas() -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    code = (
        "import pyarrow as pa; from samsarrow.spark.schema import ToSpark; "
        "schema = pa.schema({'topic': pa.string()}); "
        "rows = ToSpark(schema, 'größe')(pa.RecordBatch.from_arrays([pa.nulls(3)], ['key'])); "
        "rows.validate(full=True); "
        "assert rows['topic'].to_pylist() == ['größe'] * 3"
    )
    assert {"pandas", "pyarrow.compute"} & modules_after(code) == set()


@pytest.mark.parametrize("name", samsarrow.__all__)
def test_every_public_name_is_available_and_in_dir(name: str) -> None:
    assert getattr(samsarrow, name).__name__ == name
    assert name in dir(samsarrow)


def test_submodules_are_available_without_import() -> None:
    loaded = modules_after("import samsarrow; samsarrow.exceptions.KafkaError; samsarrow.testing.Broker")
    assert {"samsarrow.exceptions", "samsarrow.testing.broker"} <= loaded


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'samsarrow' has no attribute 'Konsumer'"):
        _ = samsarrow.Konsumer  # type: ignore[attr-defined]


def test_version_attribute_and_command_line_option() -> None:
    try:
        importlib.metadata.version("samsarrow")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("samsarrow is imported from a folder without package metadata")
    assert samsarrow.__version__ == importlib.metadata.version("samsarrow")
    assert "__version__" in dir(samsarrow)
    command = [sys.executable, "-m", "samsarrow", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert samsarrow.__version__ in done.stdout


@pytest.mark.parametrize("without_metadata", [False, True])
def test_help_works_without_optional_packages(without_metadata: bool) -> None:
    code = """
import sys
for name in ("daft", "datafusion", "dlt", "polars", "pyspark", "ray"):
    sys.modules[name] = None
if WITHOUT_METADATA:
    import importlib.metadata
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)
    importlib.metadata.version = missing
import inspect, pydoc, samsarrow
names = dir(samsarrow)
engines = {"daft", "datafusion", "dlt", "polars", "ray", "spark"}
assert not (engines | {"Any", "importlib", "TYPE_CHECKING"}) & set(names), names
assert dict(inspect.getmembers(samsarrow))["Consumer"] is samsarrow.Consumer
assert "class Consumer" in pydoc.render_doc(samsarrow, renderer=pydoc.plaintext)
"""
    code = code.replace("WITHOUT_METADATA", str(without_metadata))
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    ("name", "package"), [("daft", "daft"), ("datafusion", "datafusion"), ("dlt", "dlt"), ("ray", "ray[data]")]
)
def test_adapters_name_the_package_of_a_missing_engine(name: str, package: str) -> None:
    code = f"""
import sys
sys.modules["{name}"] = None
import samsarrow
try:
    samsarrow.{name}
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert f"pip install '{package}>=" in done.stdout
