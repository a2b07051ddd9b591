"""Compiles the Java classes against PySpark's jars and packs them with the native libraries into one jar.

    python jvm/build.py jvm/target/samsarrow-spark.jar target/ci/libsamsarrow_jvm.so

Takes one native library per architecture. The ELF header of a library names its architecture. Builds are reproducible.
"""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import crates

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "src" / "main" / "java"
RESOURCES = HERE / "src" / "main" / "resources"
LIBRARY = "libsamsarrow_jvm.so"
# Resource with the version, which must be the same for the classes and the native library; `samsarrow.spark.jar()`
# reads it.
VERSION = "io/github/samsarrow/spark/version"
# Machine numbers of ELF headers, and the JVM's names of these architectures.
MACHINES = {62: "x86_64", 183: "aarch64"}
# All entries have this time, so that builds are reproducible. It is the earliest time that a zip file can store.
ZIP_TIME = (1980, 1, 1, 0, 0, 0)


def pyspark_jars() -> Path:
    """Returns the folder of PySpark's jars."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SystemExit("PySpark, whose jars the classes are compiled against, is not installed in this Python")
    return Path(spec.origin).parent / "jars"


def compiled(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Compiles the Java classes. Yields the name of each class file in the jar and its contents."""
    sources = sorted(map(str, SOURCES.rglob("*.java")))
    options = ["--release", "17", "-Xlint:all,-classfile,-path,-processing", "-Werror", "-proc:none"]
    command = ["javac", *options, "-cp", f"{pyspark_jars()}/*", "-d", str(folder), *sources]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"javac failed:\n{done.stdout}{done.stderr}")
    for path in folder.rglob("*.class"):
        yield path.relative_to(folder).as_posix(), path.read_bytes()


def machine(library: bytes) -> str:
    """Returns the architecture of a native library, read from its ELF header."""
    name = MACHINES.get(int.from_bytes(library[18:20], "little"))
    if name is None or not library.startswith(b"\x7fELF\x02\x01"):
        raise SystemExit(f"a library is not for 64-bit Linux on {' or '.join(MACHINES.values())}")
    return name


def meta(machines: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yields the names and contents of the jar's metadata files: manifest, version, licences and SBOM."""
    version = crates.version()
    lines = {
        "Manifest-Version": "1.0",
        "Automatic-Module-Name": "io.github.samsarrow.spark",
        "Implementation-Title": "samsarrow-spark",
        "Implementation-Version": version,
        "Bundle-License": "Apache-2.0",
    }
    # A jar must begin with its manifest.
    yield "META-INF/MANIFEST.MF", "".join(f"{k}: {v}\r\n" for k, v in lines.items()).encode() + b"\r\n"
    yield VERSION, version.encode()
    yield "META-INF/LICENSE", (HERE.parent / "LICENSE").read_bytes()
    linked = crates.linked(f"{name}-unknown-linux-gnu" for name in machines)
    yield "META-INF/THIRD-PARTY-NOTICES", crates.notices(linked).encode()
    yield "META-INF/sbom/samsarrow-spark.cdx.json", crates.sbom(linked).encode()


def contents(libraries: dict[str, bytes], folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yields the names and contents of all entries of the jar."""
    yield from meta(sorted(libraries))
    for path in RESOURCES.rglob("*"):
        if path.is_file():
            yield path.relative_to(RESOURCES).as_posix(), path.read_bytes()
    yield from compiled(folder)
    for name, native in libraries.items():
        entry = f"native/linux-{name}/{LIBRARY}"
        yield entry, native
        yield f"{entry}.sha256", hashlib.sha256(native).hexdigest().encode()


def build(jar: Path, *paths: Path) -> None:
    """Writes the jar to a temporary file and then renames it, so that the jar is never incomplete."""
    natives = [path.read_bytes() for path in paths]
    libraries = {machine(native): native for native in natives}
    if not natives or len(libraries) < len(natives):
        raise SystemExit("a jar takes one library for each kind of machine, and at least one")
    jar.parent.mkdir(parents=True, exist_ok=True)
    unfinished = jar.with_suffix(".part")
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as out:
        first, *others = contents(libraries, Path(folder))
        for name, content in [first, *sorted(others)]:
            out.writestr(zipfile.ZipInfo(name, ZIP_TIME), content, zipfile.ZIP_DEFLATED)
    unfinished.replace(jar)


if __name__ == "__main__":
    build(*map(Path, sys.argv[1:]))
