"""Tests with other versions of Python, pyarrow and Spark, and checks of what the compiled module requires of the
machine.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import samsarrow
from samsarrow import _cpu_check
from samsarrow.spark import jar

from .probe import DEFECT, REFUSED, WORKS
from .pythons import NotHereError, Python, python, site, virtual_environment
from .spark import HERE, SparkProcess

NOT_RUN = "not run"
ROOT = HERE.parents[1]
SOURCES = ROOT / "python"
PYTHONS = ("3.11", "3.12", "3.13", "3.14", "3.15")
SPARKS = ("4.0", "4.1", "4.2", "4.3")
# 4.2.0 is listed in addition to 4.2, because it reads rows instead of columns.
JVM_SPARKS = ("4.0", "4.1", "4.2.0", "4.2", "4.3")
EARLIER_SPARK = "3.5"
IN_THE_JVM = "Spark's JVM"
# Earlier versions request a Python source's latest offset without passing the current one.
LIMITS_SINCE = (4, 2)
STEP_S = 240.0
# Tests that use more of pyarrow than the smoke test: tests without a broker, of typed values, and of dead letters.
FLOOR_TESTS = ("tests/unit", "tests/values", "tests/broker/test_value_formats.py")
FLOOR_NEEDS = (
    "click", "cryptography", "fastavro", "numpy", "pandas<3", "protobuf>=6", "psycopg[binary]", "pytest>=9.2,<10",
    "pytest-rerunfailures", "pytest-timeout", "trustme",
)  # fmt: skip
FLOOR_TESTS_S = 1200.0


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Attributes:
        group: title of the table.
        what: the tested component.
        kind: `works`, `refused`, `defect`, `not run`.
        text: details.
    """

    group: str
    what: str
    kind: str
    text: str


def surroundings() -> Iterator[Row]:
    """Yields all rows as their tests finish."""
    for version in PYTHONS:
        yield _smoke("Python", version, f"site-{version}", version, "pyarrow")
    oldest = f"pyarrow=={oldest_pyarrow()}.0.*"
    for label, requirement in (("oldest", oldest), ("newest", "pyarrow")):
        yield _smoke("pyarrow", label, _folder(requirement), "3.11", requirement)
    yield from floor(oldest)
    for version in SPARKS:
        yield _spark(version)
    yield from shapes(JVM_SPARKS)
    yield _earlier_spark()
    yield _glibc()
    yield _older_cpu()


def oldest_pyarrow() -> str:
    """Returns the minimum version that the package requires."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [floor] = [name for name in project["dependencies"] if name.startswith("pyarrow")]
    return str(floor.removeprefix("pyarrow>="))


def floor(pyarrow: str) -> Iterator[Row]:
    """Runs tests without a broker and tests of typed values, then features of the oldest Spark, with the oldest
    pyarrow.
    """
    spark = f"pyspark=={SPARKS[0]}.*"
    try:
        executable = virtual_environment(f"{_folder(pyarrow)}-tests", pyarrow, spark, *FLOOR_NEEDS)
    except NotHereError as reason:
        yield Row("pyarrow", "oldest, tests", NOT_RUN, str(reason))
        return
    command = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(ROOT),
        "-c",
        str(ROOT / "pyproject.toml"),
    ]
    tests = [str(ROOT / name) for name in FLOOR_TESTS]
    done = Python((str(executable),)).run(*command, *tests, path=[SOURCES], timeout=FLOOR_TESTS_S)
    last = done.stdout.strip().rpartition("\n")[2].partition(" in ")[0]
    kind, text = (WORKS, last) if done.returncode == 0 else (DEFECT, done.stdout[-1500:])
    yield Row("pyarrow", "oldest, tests", kind, text)
    yield _spark_row("pyarrow", f"oldest, Spark {SPARKS[0]}", SPARKS[0], executable)


def _folder(pyarrow: str) -> str:
    """Returns the folder of the environment, which depends on the requirement."""
    return re.sub(r"[^a-z0-9]+", "-", pyarrow).strip("-")


def _smoke(group: str, what: str, folder: str, version: str, pyarrow: str) -> Row:
    try:
        packages = site(folder, version, pyarrow, "click")
        done = python(version).run(str(HERE / "smoke.py"), path=[SOURCES, packages])
    except NotHereError as reason:
        return Row(group, what, NOT_RUN, str(reason))
    if done.returncode != 0:
        return Row(group, what, DEFECT, f"exit code {done.returncode}: {done.stderr[-800:]}")
    ran, arrow = done.stdout.split()
    return Row(group, what, WORKS, f"Python {ran}, pyarrow {arrow}")


def _environment(version: str) -> Path:
    if version == SPARKS[-1]:
        return Path(sys.executable)
    return virtual_environment(f"pyspark-{version}", f"pyspark=={version}.*", "pyarrow", "pandas<3", "click")


def _spark(version: str) -> Row:
    try:
        executable = _environment(version)
    except NotHereError as reason:
        return Row("PySpark", version, NOT_RUN, str(reason))
    return _spark_row("PySpark", version, version, executable)


def _spark_row(group: str, what: str, version: str, executable: Path) -> Row:
    """Runs the features of `spark_smoke.py` in that environment with its Spark."""
    may_refuse = {"limited"} if tuple(map(int, version.split("."))) < LIMITS_SINCE else set()
    works, refused, defects = [], [], []
    with SparkProcess(python=str(executable)) as spark:
        for feature, error in spark.outcomes(STEP_S):
            if error is None:
                works.append(SPARK_FEATURES[feature])
            elif feature in may_refuse and "needs Spark 4.2" in error:
                refused.append(SPARK_FEATURES[feature])
            else:
                defects.append(f"{feature}: {error}")
    text = ", ".join(works) + (f"; refused, with an error that says so: {', '.join(refused)}" if refused else "")
    return Row(group, what, DEFECT, "; ".join(defects)) if defects else Row(group, what, WORKS, text)


SPARK_FEATURES = {
    "batch": "batch writes and reads",
    "filter": "filters",
    "stream_read": "streaming reads",
    "available_now": "Trigger.AvailableNow",
    "limited": "`maxOffsetsPerTrigger`",
    "stream_write": "streaming writes",
    "typed": "Avro, JSON and Protobuf",
}


def shapes(versions: Iterable[str], names: Sequence[str] = ()) -> Iterator[Row]:
    """Compares queries of these shapes, or of all, through `samsarrow-jvm` on each of these Spark versions."""
    for version in versions:
        try:
            executable = _environment(version)
        except NotHereError as reason:
            yield Row(IN_THE_JVM, version, NOT_RUN, str(reason))
            continue
        with SparkProcess(jar(), *names, python=str(executable), script="spark_shapes.py") as spark:
            outcomes = list(spark.outcomes(STEP_S))
        defects = [f"{name}: {error}" for name, error in outcomes if error is not None]
        text = f"{len(outcomes)} shapes of queries find what Spark finds in the same rows without Kafka"
        yield Row(IN_THE_JVM, version, DEFECT if defects else WORKS, "; ".join(defects) or text)


def _earlier_spark() -> Row:
    try:
        one = Python((str(_environment(EARLIER_SPARK)),))
    except NotHereError as reason:
        return Row("PySpark", EARLIER_SPARK, NOT_RUN, str(reason))
    texts = set()
    for module in ("pyspark_samsarrow", "pyspark_samsarrow_python", "samsarrow.spark"):
        done = one.run("-c", f"import {module}", path=[SOURCES])
        texts.add(done.stderr.strip().rpartition("\n")[2])
    if len(texts) == 1 and "needs Spark 4.0 or later" in (text := texts.pop()):
        return Row("PySpark", EARLIER_SPARK, REFUSED, text)
    return Row("PySpark", EARLIER_SPARK, DEFECT, " / ".join(sorted(texts)))


def _glibc() -> Row:
    """Reports the glibc version that the compiled module requires; `make wheel` links for an older version."""
    [module] = (Path(samsarrow.__file__).parent).glob("_core*.so")
    asked = max(tuple(map(int, found.split(b"."))) for found in re.findall(rb"GLIBC_(\d+\.\d+)\b", module.read_bytes()))
    here = ".".join(map(str, asked))
    wheels = sorted((ROOT / "dist").glob("*manylinux*x86_64.whl"))
    built = f"; {wheels[-1].name} is built" if wheels else ""
    text = f"this build asks for glibc {here}; `make wheel` links for glibc 2.17 and checks it{built}"
    return Row("The machine", "glibc", WORKS, text)


def _older_cpu() -> Row:
    """Checks the error on a CPU without the required instructions, with a fake /proc/cpuinfo."""
    what = "a CPU before x86-64-v2"
    if os.uname().machine != "x86_64":
        return Row("The machine", what, NOT_RUN, f"this is {os.uname().machine}")
    with tempfile.NamedTemporaryFile("w") as cpuinfo:
        cpuinfo.write("processor\t: 0\nflags\t\t: fpu sse sse2 pni cx16\nbugs\t\t:\n")
        cpuinfo.flush()
        try:
            _cpu_check.check(cpuinfo.name)
        except ImportError as error:
            return Row("The machine", what, REFUSED, f"ImportError: {error}")
    return Row("The machine", what, DEFECT, "nothing is said; the core would end by an illegal instruction")
