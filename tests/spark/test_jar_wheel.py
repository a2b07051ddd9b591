"""The wheel `samsarrow-spark`, built from the current jar, and the contents of this jar."""

import base64
import csv
import hashlib
import io
import json
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from samsarrow.spark import jar
from support.kafka import SUPPORT

ROOT = SUPPORT.parents[1]
BUILD = (sys.executable, str(ROOT / "jvm" / "build.py"))


@pytest.fixture(scope="module")
def wheel(built: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, str(ROOT / "jvm" / "wheel.py"), jar(), str(out)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    [path] = out.iterdir()
    return path


def test_wheel_is_universal_and_has_jar_with_licences(wheel: Path) -> None:
    number = version("samsarrow")
    assert wheel.name == f"samsarrow_spark-{number}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as content:
        info = f"samsarrow_spark-{number}.dist-info"
        packed = content.read("pyspark/jars/samsarrow-spark.jar")
        [record] = [row for row in csv.reader(io.StringIO(content.read(f"{info}/RECORD").decode())) if "jar" in row[0]]
        assert packed == Path(jar()).read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(packed).digest()).rstrip(b"=").decode()
        assert record[1] == f"sha256={digest}"
        names = set(content.namelist())
    assert {f"{info}/licenses/LICENSE", f"{info}/licenses/THIRD-PARTY-NOTICES"} <= names
    assert {name.partition("/")[0] for name in names} == {"pyspark", info}


def test_jar_lists_linked_crates(built: None) -> None:
    with zipfile.ZipFile(jar()) as content:
        notices = content.read("META-INF/THIRD-PARTY-NOTICES").decode()
        page = json.loads(content.read("META-INF/sbom/samsarrow-spark.cdx.json"))
        manifest = content.read("META-INF/MANIFEST.MF").decode()
        assert "Apache License" in content.read("META-INF/LICENSE").decode()
    assert f"Implementation-Version: {version('samsarrow')}\r\n" in manifest
    assert page["bomFormat"] == "CycloneDX"
    results = {(part["name"], part["version"]): part for part in page["components"]}
    locked = {(p["name"], p["version"]): p for p in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]}
    assert {"rustls", "aws-lc-sys", "zstd-sys", "tokio", "arrow-array", "jni"} <= {name for name, _ in results}
    # Crates used only by builds, tests or the Python package are not listed.
    assert not {"criterion", "proptest", "pyo3", "thiserror-impl"} & {name for name, _ in results}
    for key, part in results.items():
        assert part["hashes"] == [{"alg": "SHA-256", "content": locked[key]["checksum"]}]
        assert part["licenses"][0]["expression"], key
        assert f"{key[0]} {key[1]} (" in notices
    assert "Zstandard" in notices, "C sources have licences of their own"


def test_all_versions_match_cargo() -> None:
    """The extra pins the version of the jar. The jar's classes and libraries have the version of the Python package."""
    number = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = [name for name in project["optional-dependencies"]["spark"] if name.startswith("samsarrow-spark")]
    assert [pin.partition(";")[0] for pin in pins] == [f"samsarrow-spark=={number}"]
    assert version("samsarrow") == number
    assert f"<version>{number}</version>" in (ROOT / "jvm" / "pom.xml").read_text()


def test_jar_has_a_library_per_machine(built: None, tmp_path: Path) -> None:
    """Reads the start of this machine's library, and makes a copy whose ELF header names the other machine."""
    with zipfile.ZipFile(jar()) as content:
        [place] = [name for name in content.namelist() if name.endswith(".so")]
        with content.open(place) as library:
            own = library.read(1 << 20)
    other = own[:18] + (b"\xb7\0" if own[18] == 62 else b"\x3e\0") + own[20:]
    paths = [tmp_path / "own.so", tmp_path / "other.so"]
    for path, library in zip(paths, (own, other), strict=True):
        path.write_bytes(library)
    subprocess.run([*BUILD, str(tmp_path / "both.jar"), *map(str, paths)], check=True, timeout=120)
    with zipfile.ZipFile(tmp_path / "both.jar") as content:
        results = {name: content.read(name) for name in content.namelist() if name.startswith("native/")}
    places = [f"native/linux-{machine}/libsamsarrow_jvm.so" for machine in ("aarch64", "x86_64")]
    assert sorted(results) == sorted([*places, *(f"{name}.sha256" for name in places)])
    assert {results[name] for name in places} == {own, other}
    for name in places:
        assert results[f"{name}.sha256"].decode() == hashlib.sha256(results[name]).hexdigest()


@pytest.mark.parametrize(
    ("libraries", "error"),
    [
        ([62, 62], "a jar takes one library for each kind of machine"),
        ([], "a jar takes one library for each kind of machine, and at least one"),
        ([8], "a library is not for 64-bit Linux on x86_64 or aarch64"),
    ],
)
def test_rejects_two_libraries_of_one_machine(tmp_path: Path, libraries: list[int], error: str) -> None:
    paths = []
    for number, machine in enumerate(libraries):
        paths.append(tmp_path / f"{number}.so")
        paths[-1].write_bytes(b"\x7fELF\x02\x01".ljust(18, b"\0") + bytes([machine, 0]) + bytes(40))
    command = [*BUILD, str(tmp_path / "x.jar"), *map(str, paths)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert error in done.stderr
    assert not (tmp_path / "x.jar").exists()
