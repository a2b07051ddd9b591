"""Modules loaded by `import samsarrow`, and its public names."""

import importlib.metadata
import pickle
import subprocess
import sys

import pytest

import samsarrow
from samsarrow import Producer
from samsarrow.testing import Broker


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


def planned_read(broker: Broker, **options: str) -> bytes:
    """Returns a pickled reader with a pickled offset range, as Spark passes them to a task."""
    from samsarrow.spark.datasource import PythonKafkaDataSource

    source = PythonKafkaDataSource(
        {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "flights", **options}
    )
    reader = source.reader(source.schema())
    return pickle.dumps((source, reader, reader.partitions()[0]))


def test_spark_tasks_import_only_modules_for_bytes() -> None:
    """Spark starts a worker for each query with a limit, in which these imports took longer than the read itself."""
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    with Broker(topics={"flights": 1}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("flights", b"v", timestamp=1_000_001).result()
        planned = planned_read(broker)
        loaded = modules_after(
            f"import pickle; source, reader, partition = pickle.loads({planned!r}); "
            "rows = next(reader.read(partition)); "
            # Checked here because `to_pylist` imports pandas.
            "import sys; assert not {'pandas', 'pyarrow.compute', 'asyncio'} & set(sys.modules); "
            "rows.validate(full=True); row, = rows.to_pylist(); "
            "assert row['topic'] == 'flights' and row['value'] == b'v' and row['timestampType'] == 0, row; "
            "assert row['timestamp'].timestamp() == 1000.001, row"
        )
    assert "samsarrow.spark.fetch" in loaded
    unused = {"registry", "values", "producer", "admin", "metrics", "spark.values", "spark.types", "spark.listener"}
    assert {f"samsarrow.{name}" for name in unused} & loaded == set()


def test_spark_source_is_unpickled_without_modules_for_reads() -> None:
    """Each process that Spark starts for a query unpickles the source, and most of them only to pass it on."""
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    loaded = modules_after("import pyspark_samsarrow, pyspark_samsarrow_python; pyspark_samsarrow.DefaultSource.name()")
    ours = {name for name in loaded if name.startswith("samsarrow")}
    checks = {"samsarrow.spark.checks", "samsarrow._cpu_check"}
    assert ours == {"samsarrow", "samsarrow.spark", "samsarrow.spark.datasource"} | checks
    described = modules_after(
        "from pyspark_samsarrow import DefaultSource as S; "
        "S({'kafka.bootstrap.servers': 'localhost:1', 'subscribe': 't'}).schema()"
    )
    assert {"pyarrow", "samsarrow.values", "samsarrow.registry", "samsarrow.types"} & described == set()


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
