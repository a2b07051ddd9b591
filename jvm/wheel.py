"""Packs the jar as the wheel `samsarrow-spark`, with the version of the jar.

python jvm/wheel.py jvm/target/samsarrow-spark.jar dist
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from build import HERE, VERSION

# Folder in the wheel, from which PySpark loads jars.
JARS = Path("pyspark") / "jars"


def build(jar: Path, out: Path) -> None:
    """Writes the wheel into a folder, without changing the checkout."""
    with tempfile.TemporaryDirectory() as folder:
        project = shutil.copytree(HERE / "python", Path(folder) / "python")
        (project / JARS).mkdir(parents=True)
        shutil.copy(jar, project / JARS / "samsarrow-spark.jar")
        with zipfile.ZipFile(jar) as content:
            (project / "VERSION").write_bytes(content.read(VERSION))
            (project / "LICENSE").write_bytes(content.read("META-INF/LICENSE"))
            (project / "THIRD-PARTY-NOTICES").write_bytes(content.read("META-INF/THIRD-PARTY-NOTICES"))
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
        # Uses the setuptools of this environment, so that nothing is downloaded.
        command = [*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", str(out), str(project)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    build(*map(Path, sys.argv[1:3]))
