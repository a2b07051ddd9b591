"""Builds a jar with `format("vectors")`, compiled against PySpark's jars, which shows Spark's upper limit for
columns.
"""

from __future__ import annotations

import importlib.util
import subprocess
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parent / "java" / "Vectors.java"


def jar(folder: Path) -> str:
    """Builds the jar in `folder` and returns its path."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    classes = folder / "classes"
    spark = Path(spec.origin).parent / "jars"
    command = [
        "javac",
        "--release",
        "17",
        "-nowarn",
        "-proc:none",
        "-cp",
        f"{spark}/*",
        "-d",
        str(classes),
        str(SOURCE),
    ]
    subprocess.run(command, check=True, capture_output=True)
    path = folder / "vectors.jar"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("META-INF/services/org.apache.spark.sql.sources.DataSourceRegister", "Vectors\n")
        for made in classes.rglob("*.class"):
            packed.write(made, made.relative_to(classes).as_posix())
    return str(path)
