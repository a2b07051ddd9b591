"""`check_session` finds what keeps a session from reading Kafka."""

import os
from pathlib import Path
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
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/no/such/python")
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

    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/no/such/python")
    monkeypatch.setattr(session_checks, "_table", missing)
    with pytest.raises(ConfigurationError, match=r"run '/no/such/python', where samsarrow cannot .*PYSPARK_PYTHON"):
        check_session(spark)


def test_source_that_cannot_be_loaded(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(_: Any) -> Any:
        raise RuntimeError("NativeLibraryError: the jar has no native library for linux-riscv64\n\tat Library.load")

    monkeypatch.setattr(session_checks, "_table", damaged)
    with pytest.raises(ConfigurationError, match=r"cannot be loaded: NativeLibraryError: .* linux-riscv64$"):
        check_session(spark)


def test_other_version_in_workers(spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A package in another folder, in front of the one of this Python."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 9.8.7\n")
    os.chmod(python, 0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    monkeypatch.setattr(session_checks, "_table", lambda _: NoTable())
    with pytest.raises(ConfigurationError, match=r"where samsarrow is 9\.8\.7 and not"):
        check_session(spark)
