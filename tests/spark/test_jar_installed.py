"""The jar of the wheel `samsarrow-spark` in environments with PySpark: what Spark reads with, and what pip does."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from samsarrow.spark import jar
from support.kafka import SUPPORT
from support.slow import WHOLE

ROOT = SUPPORT.parents[1]
# Packages of this environment that the tests need in others.
PACKAGES = ("click", "py4j", "pyarrow", "pyspark")
NOTICE = 'INFO samsarrow: format("samsarrow") is the Python source'


def wheel(path: str | Path, out: Path) -> Path:
    """Packs a jar into the wheel `samsarrow-spark`."""
    command = [sys.executable, str(ROOT / "jvm" / "wheel.py"), str(path), str(out)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    [built] = out.iterdir()
    return built


def link(source: str, target: str) -> None:
    """Links a file, because PySpark has 400 MB. Copies it to another file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@dataclass(frozen=True)
class Environment:
    """A virtual environment with PySpark and this checkout's samsarrow."""

    folder: Path

    @classmethod
    def create(cls, folder: Path) -> "Environment":
        venv.create(folder, symlinks=True)
        made = cls(folder)
        own = Path(sysconfig.get_path("purelib"))
        for name in (*PACKAGES, "samsarrow"):
            for path in (own / name, *own.glob(f"{name}-*.dist-info"), *own.glob(f"{name}.libs")):
                if path.is_dir():
                    shutil.copytree(path, made.packages / path.name, copy_function=link)
        return made

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    @property
    def packages(self) -> Path:
        [path] = self.folder.glob("lib/python*/site-packages")
        return path

    @property
    def jars(self) -> Path:
        return self.packages / "pyspark" / "jars"

    def pip(self, *arguments: str | Path) -> None:
        command = [sys.executable, "-m", "pip", "--python", self.python, "--quiet", "--disable-pip-version-check"]
        done = subprocess.run(
            [*command, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr

    def install(self, path: Path) -> None:
        self.pip("install", "--no-deps", "--no-index", path)

    def uninstall(self, name: str) -> None:
        self.pip("uninstall", "--yes", name)

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if name not in ("SAMSARROW_SPARK_JAR", "SPARK_HOME")}
        path = os.pathsep.join([str(ROOT / "python"), str(SUPPORT.parent)])
        env = {**kept, "PYTHONPATH": path, "PYSPARK_PYTHON": self.python, "SPARK_LOCAL_IP": "127.0.0.1", **variables}
        command = [self.python, *arguments]
        return subprocess.run(
            command, env=env, cwd=self.folder, capture_output=True, text=True, timeout=300, check=False
        )

    def spark(self, *settings: str, **variables: str) -> tuple[dict[str, Any], list[str]]:
        """Returns the results of `spark_installed`, and the lines of its log that are notices."""
        done = self.run("-m", "support.spark_installed", *settings, **variables)
        assert done.returncode == 0, done.stderr
        notices = [line for line in done.stderr.splitlines() if NOTICE in line]
        return json.loads(done.stdout.splitlines()[-1]), notices

    def located(self) -> str:
        """Returns the result of `samsarrow.spark.jar()`, or the last line of its error."""
        done = self.run("-c", "import samsarrow.spark; print(samsarrow.spark.jar())")
        return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def current(built: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel(jar(), tmp_path_factory.mktemp("dist"))


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment.create(tmp_path / "environment")


@pytest.mark.timeout(600)
def test_installed_jar_is_used_without_configuration(environment: Environment, current: Path) -> None:
    """The same program reads in the JVM after the wheel is installed, and in Python after it is uninstalled."""
    environment.install(current)
    results, notices = environment.spark()
    assert "BatchScan samsarrow-jvm" in results["plan"]
    assert (results["rows"], results["copied"], notices) == (10, list(range(10)), [])
    own, path = version("samsarrow"), environment.jars / "samsarrow-spark.jar"
    assert results["checks"]["source"] == 'ok format("samsarrow") is the source in the JVM'
    assert results["checks"]["jar"] == f"ok {path} is version {own}"
    environment.uninstall("samsarrow-spark")
    results, notices = environment.spark()
    assert "(Python)" in results["plan"]
    assert "samsarrow-jvm" not in results["plan"]
    assert results["checks"]["source"] == 'warning format("samsarrow") is the source in Python'
    assert results["checks"]["python"].startswith("ok ")
    assert (results["rows"], results["copied"]) == (10, list(range(10)))
    # One line for the batch, and one for the stream, which another process plans.
    assert len(notices) == 2
    for notice in notices:
        assert f"Spark has no samsarrow jar: pip install 'samsarrow-spark=={version('samsarrow')}'" in notice


@WHOLE
@pytest.mark.timeout(600)
def test_jar_of_another_spark(environment: Environment, current: Path, tmp_path: Path) -> None:
    """A Spark in `SPARK_HOME` does not load the jar of this environment, until `spark.jars` names it."""
    other = Environment.create(tmp_path / "other")
    environment.install(current)
    home = str(other.packages / "pyspark")
    results, notices = environment.spark(SPARK_HOME=home)
    assert "(Python)" in results["plan"]
    assert results["rows"] == 10
    assert f"this Spark has not loaded {environment.jars / 'samsarrow-spark.jar'}: set spark.jars to" in notices[0]
    named = f"spark.jars={environment.located()}"
    results, notices = environment.spark(named, SPARK_HOME=home)
    assert "BatchScan samsarrow-jvm" in results["plan"]
    assert (results["rows"], notices) == (10, [])


@WHOLE
@pytest.mark.timeout(600)
def test_jar_may_be_in_both_places(environment: Environment, current: Path) -> None:
    """A program that sets `spark.jars` also runs where Spark already has the jar."""
    environment.install(current)
    results, notices = environment.spark(f"spark.jars={environment.located()}")
    assert "BatchScan samsarrow-jvm" in results["plan"]
    assert (results["rows"], results["copied"], notices) == (10, list(range(10)), [])


def older_jar(path: Path) -> Path:
    """Copies the jar with an older version."""
    with zipfile.ZipFile(jar()) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.namelist():
            if not entry.startswith("native/"):
                new.writestr(entry, b"0.0.9" if entry == "io/github/samsarrow/spark/version" else old.read(entry))
    return path


def test_upgrade_leaves_one_jar(environment: Environment, current: Path, tmp_path: Path) -> None:
    own = version("samsarrow")
    (tmp_path / "older").mkdir()
    environment.install(wheel(older_jar(tmp_path / "older.jar"), tmp_path / "older"))
    installed = environment.jars / "samsarrow-spark.jar"
    assert environment.located() == (
        f"samsarrow.exceptions.ConfigurationError: {installed} is version 0.0.9, and samsarrow is {own}: pip install "
        f"'samsarrow-spark=={own}', or in a checkout `make jar`"
    )
    environment.install(current)
    assert [path.name for path in environment.jars.glob("*samsarrow*")] == ["samsarrow-spark.jar"]
    assert environment.located() == str(installed)
    assert installed.read_bytes() == Path(jar()).read_bytes()
    installed.unlink()
    assert f"{installed} is missing: pip install --force-reinstall 'samsarrow-spark=={own}'" in environment.located()


def test_jar_stays_when_pyspark_goes(environment: Environment, current: Path) -> None:
    """pip uninstalls each package without the files of the other. An upgrade of PySpark uninstalls it first."""
    environment.install(current)
    environment.uninstall("pyspark")
    assert [path.name for path in environment.jars.iterdir()] == ["samsarrow-spark.jar"]
    assert "ImportError: samsarrow.spark needs Spark 4.0 or later: pip install" in environment.located()
    environment.uninstall("samsarrow-spark")
    assert not (environment.jars / "samsarrow-spark.jar").exists()


def test_environments_have_their_own_jars(environment: Environment, current: Path, tmp_path: Path) -> None:
    other = Environment.create(tmp_path / "other")
    other.install(current)
    assert other.located() == str(other.jars / "samsarrow-spark.jar")
    assert environment.located() == str(ROOT / "jvm" / "target" / "samsarrow-spark.jar")
    assert not (environment.jars / "samsarrow-spark.jar").exists()
