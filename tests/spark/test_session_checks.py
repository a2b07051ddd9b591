"""`check_session` finds what keeps a session from reading Kafka."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from samsarrow.doctor import Finding, Status
from samsarrow.exceptions import ConfigurationError
from samsarrow.spark import check_session, jar, session_checks


def by_check(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.check: finding for finding in findings}


def test_current_session(built: None, spark: Any) -> None:
    found = check_session(spark)
    assert [finding.check for finding in found] == ["spark", "source", "jar", "python", "executors"]
    assert {finding.status for finding in found} == {Status.OK}
    details = {name: finding.detail for name, finding in by_check(found).items()}
    assert details["spark"] == f"Spark is {spark.version}"
    assert details["source"] == 'format("samsarrow") is the source in the JVM'
    assert details["executors"] == "tasks run in the driver, because the master is local[2]"
    # The session copies jars of `spark.jars` to a folder of its own.
    assert Path(jar()).name in details["jar"]


def test_source_in_jvm_does_not_need_python(built: None, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_checks, "_source_python", lambda _: ("PYSPARK_PYTHON", "/no/such/python"))
    python = by_check(check_session(spark))["python"]
    assert python.status is Status.WARNING
    assert "PYSPARK_PYTHON" in python.remedy


class NoTable:
    """Stands for the table of Spark's Python sources."""

    def getClass(self) -> "NoTable":
        return self

    def getName(self) -> str:
        return "org.apache.spark.sql.execution.datasources.v2.python.PythonTable"


def test_source_in_python(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_checks, "_table", lambda _: NoTable())
    found = by_check(check_session(spark))
    assert found["source"].status is Status.WARNING
    assert "pip install 'samsarrow-spark==" in found["source"].remedy
    assert found["python"].status is Status.OK
    assert "jar" not in found


def test_python_without_samsarrow(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: Any) -> Any:
        raise RuntimeError("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: samsarrow.")

    monkeypatch.setattr(session_checks, "_source_python", lambda _: ("PYSPARK_PYTHON", "/no/such/python"))
    monkeypatch.setattr(session_checks, "_table", missing)
    with pytest.raises(
        ConfigurationError, match=r"run '/no/such/python', from PYSPARK_PYTHON, where samsarrow cannot .*PYSPARK_PYTHON"
    ):
        check_session(spark)


def test_source_that_cannot_be_loaded(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(_: Any) -> Any:
        text = "An error occurred while calling o32.load.\n: NativeLibraryError: the jar has no native library for"
        raise RuntimeError(f"{text} linux-riscv64\n\tat Library.load")

    monkeypatch.setattr(session_checks, "_table", damaged)
    with pytest.raises(ConfigurationError, match=r"cannot be loaded: NativeLibraryError: .* linux-riscv64$"):
        check_session(spark)


def test_other_version_in_workers(spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A package in another folder, in front of the one of this Python."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 9.8.7\n")
    os.chmod(python, 0o755)
    monkeypatch.setattr(session_checks, "_source_python", lambda _: (None, str(python)))
    monkeypatch.setattr(session_checks, "_table", lambda _: NoTable())
    with pytest.raises(ConfigurationError, match=r"where samsarrow is 9\.8\.7 and not"):
        check_session(spark)


class Environment:
    """Stands for a JVM with these variables."""

    def __init__(self, **variables: str) -> None:
        self.System = self
        self.getenv = variables.get


@pytest.mark.parametrize(
    ("variables", "remedy"),
    [
        (
            {},
            r"'python3', the one on their PATH.*set PYSPARK_PYTHON=.* starts; spark.pyspark.python has no",
        ),
        ({"PYSPARK_PYTHON": "/a"}, "'/a', from PYSPARK_PYTHON.*spark.pyspark.python has no effect"),
        (
            {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": "/b"},
            "'/b', from PYSPARK_DRIVER_PYTHON.*remove PYSPARK_DRIVER_PYTHON, which overrides it",
        ),
    ],
)
def test_python_of_sources(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variables: dict[str, str], remedy: str
) -> None:
    """Spark's rule, whatever `spark.pyspark.python` is."""
    monkeypatch.setenv("PATH", str(tmp_path))
    spark: Any = SimpleNamespace(
        conf={"spark.pyspark.python": sys.executable}, sparkContext=SimpleNamespace(_jvm=Environment(**variables))
    )
    found = session_checks._python(spark)
    assert found.status is Status.FAILED
    assert re.search(remedy, f"{found.detail}: {found.remedy}")


PROGRAM = """
from pyspark.sql import SparkSession
from samsarrow.spark import check_session
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = spark.config("spark.pyspark.python", {python!r}).getOrCreate()
try:
    print([finding.detail for finding in check_session(spark) if finding.check == "python"])
except Exception as error:
    print(error)
options = {{"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}}
try:
    spark.read.format("samsarrow-python").options(**options).load()
    print("loaded")
except Exception as error:
    print("DATA_SOURCE_NOT_FOUND" in str(error))
spark.stop()
"""


@pytest.mark.parametrize("variable", [None, "PYSPARK_PYTHON"])
def test_environment_that_is_not_activated(tmp_path: Path, variable: str | None) -> None:
    """Spark and the check agree about the Python of sources: `python3` on the PATH, unless a variable names another."""
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nunset PYTHONPATH\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")}
    env |= {"PATH": f"{tmp_path}:{env['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}
    if variable is not None:
        env[variable] = sys.executable
    code = PROGRAM.format(python=sys.executable if variable is None else str(bare))
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path
    )
    check, loaded = done.stdout.splitlines()
    if variable is None:
        assert re.search(r"'python3', the one on their PATH, where samsarrow cannot be imported", check), done.stderr
        assert f"set PYSPARK_PYTHON={sys.executable} in the environment" in check
        assert loaded == "True"
    else:
        assert f"run '{sys.executable}', from PYSPARK_PYTHON, where samsarrow is" in check.replace('"', "'")
        assert loaded == "loaded"
