"""The native library of the JVM reader is found, checked and loaded; errors explain failures."""

import hashlib
import importlib.util
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import pytest

from samsarrow.exceptions import ConfigurationError
from samsarrow.spark import jar
from samsarrow.spark.jar_file import VARIABLE
from support.kafka import SUPPORT

NATIVE = f"native/linux-{platform.machine()}/libsamsarrow_jvm.so"
VERSION = "io/github/samsarrow/spark/version"
INSTEAD = 'format("samsarrow-python") reads the same without a native library, where Python has samsarrow'
# Position of the machine in an ELF header, and machine numbers.
MACHINE = slice(18, 20)
X86_64, AARCH64 = (number.to_bytes(2, "little") for number in (62, 183))
# Mounts a private file system without execute permission.
NOEXEC = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o noexec tmpfs "$0" && exec "$@"')


@pytest.fixture
def altered(built: None, tmp_path: Path) -> Callable[..., str]:
    """Returns a copy of the jar with replaced files: `altered("name", {"path": b"..."})`; None omits a file."""

    def make(name: str, files: dict[str, bytes | None]) -> str:
        path = tmp_path / f"{name}.jar"
        with zipfile.ZipFile(jar()) as old, zipfile.ZipFile(path, "w") as new:
            for entry in {*old.namelist(), *files}:
                content = files[entry] if entry in files else old.read(entry)
                if content is not None:
                    new.writestr(entry, content)
        return str(path)

    return make


def signed(library: bytes) -> dict[str, bytes | None]:
    """Returns a library and its file of the SHA-256 hash, by path in the jar."""
    return {NATIVE: library, f"{NATIVE}.sha256": hashlib.sha256(library).hexdigest().encode()}


def java(program: str, *arguments: str, temporary: Path, within: Sequence[str] = ()) -> list[str]:
    """Runs a Java program of tests/support/java with Spark's classes, and returns its output lines."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    classes = str(Path(spec.origin).parent / "jars" / "*")
    command = [*within, "java", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={temporary}", "-cp", classes]
    source = str(SUPPORT / "java" / program)
    done = subprocess.run([*command, source, *arguments], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.splitlines()


def ask(*jars: str, temporary: Path, within: Sequence[str] = ()) -> list[str]:
    """Runs `inferSchema` without options from each jar in a new JVM, and returns the messages."""
    return java("LoadLibrary.java", *jars, temporary=temporary, within=within)


def test_unloadable_library_is_a_one_line_error(altered: Callable[..., str], tmp_path: Path) -> None:
    with zipfile.ZipFile(jar()) as content:
        library = content.read(NATIVE)
    foreign = bytearray(library)
    foreign[MACHINE] = AARCH64 if library[MACHINE] == X86_64 else X86_64
    said = {
        "none": f"the jar has no native library for linux-{platform.machine()}",
        "truncated": "the native library in the jar is damaged: its SHA-256 is not ",
        "empty": "the native library cannot be loaded: UnsatisfiedLinkError: ",
        "foreign": "can't load ",
        "older": f"the native library is version {version('samsarrow')} with ABI ",
    }
    jars = {
        "none": altered("none", {NATIVE: None}),
        "truncated": altered("truncated", {NATIVE: library[: len(library) // 2]}),
        "empty": altered("empty", signed(b"\x7fELF" + bytes(200))),
        "foreign": altered("foreign", signed(bytes(foreign))),
        "older": altered("older", {VERSION: b"0.0.9"}),
    }
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    result = dict(zip(jars, ask(*jars.values(), temporary=temporary), strict=True))
    for name, text in said.items():
        assert text in result[name], name
        assert result[name].startswith("NativeLibraryError: "), name
        assert result[name].endswith(f"; {INSTEAD}"), name
    assert re.search(
        r"the classes want version 0\.0\.9 with ABI \d+: two versions of the jar are mixed", result["older"]
    )
    assert list(temporary.glob("samsarrow-*")) == [], "libraries are unlinked, loaded or not"


def test_each_class_loader_has_its_own_library(altered: Callable[..., str], tmp_path: Path) -> None:
    """Class loaders, such as those of Spark Connect sessions, each load the library, even after another one failed to
    load it.
    """
    broken = altered("broken", {NATIVE: None})
    first, failed, second = ask(jar(), broken, altered("again", {}), temporary=tmp_path)
    assert "kafka.bootstrap.servers must be given" in first
    assert INSTEAD in failed
    assert second == first


def test_rejects_samsarrow_of_other_version_beside_jar(built: None, tmp_path: Path) -> None:
    jars = tmp_path / "site" / "pyspark" / "jars"
    jars.mkdir(parents=True)
    copy = shutil.copy(jar(), jars / "samsarrow-spark.jar")
    same, other = (tmp_path / "site" / f"samsarrow-{number}.dist-info" for number in (version("samsarrow"), "9.8.7"))
    other.mkdir()
    (text,) = ask(str(copy), temporary=tmp_path)
    assert text == (
        f"NativeLibraryError: {copy} is version {version('samsarrow')}, and samsarrow in the same "
        f"environment is version 9.8.7: pip install 'samsarrow-spark==9.8.7' and start Spark again; {INSTEAD}"
    )
    same.mkdir()
    (text,) = ask(str(copy), temporary=tmp_path)
    assert "kafka.bootstrap.servers must be given" in text


def test_error_names_read_only_folder(built: None, tmp_path: Path) -> None:
    (said,) = ask(jar(), temporary=tmp_path / "no-such-folder")
    assert f"the native library cannot be written below {tmp_path / 'no-such-folder'}" in said
    assert "set -Dsamsarrow.native.dir=" in said


def test_error_names_noexec_folder(built: None, tmp_path: Path) -> None:
    within = [*NOEXEC, str(tmp_path)]
    if subprocess.run([*within, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("a file system cannot be mounted here: that needs unshare and the rights of root")
    (said,) = ask(jar(), temporary=tmp_path, within=within)
    assert "cannot be loaded (its folder is mounted noexec: set -Dsamsarrow.native.dir= to another)" in said
    assert said.endswith(INSTEAD)


def test_loader_messages_are_explained(built: None, tmp_path: Path) -> None:
    """Explains messages of the loaders of several systems."""
    noexec, older = (
        " (its folder is mounted noexec: set -Dsamsarrow.native.dir= to another)",
        " (it needs a Linux with a newer glibc)",
    )
    words = {
        "/tmp/x.so: failed to map segment from shared object": noexec,
        "/tmp/x.so: failed to map segment from shared object: Operation not permitted": noexec,
        "/lib/libc.so.6: version `GLIBC_2.34' not found (required by x.so)": older,
        "Error loading shared library ld-linux-x86-64.so.2: No such file or directory (needed by x.so)": older,
        "/tmp/x.so: file too short": "",
    }
    assert java("ExplainLoader.java", jar(), *words, temporary=tmp_path) == list(words.values())


def a_jar(path: Path, number: str) -> Path:
    """Writes a jar that contains only a version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as content:
        content.writestr(VERSION, number)
    return path


def install(packages: Path, number: str) -> Path:
    """Installs a jar that contains only a version, as the wheel samsarrow-spark does."""
    metadata = packages / f"samsarrow_spark-{number}.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text(f"Metadata-Version: 2.1\nName: samsarrow-spark\nVersion: {number}\n")
    path = a_jar(packages / "pyspark" / "jars" / "samsarrow-spark.jar", number)
    importlib.invalidate_caches()
    return path


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder with paths for an installed and for a built jar, neither of which exists at first."""
    monkeypatch.delenv(VARIABLE, raising=False)
    # Uses `sys.modules`, because a function with the same name hides the module.
    monkeypatch.setattr(sys.modules["samsarrow.spark.jar_file"], "_BUILT", tmp_path / "built" / "samsarrow-spark.jar")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    yield tmp_path
    sys.path_importer_cache.clear()


def test_jar_lookup_order(monkeypatch: pytest.MonkeyPatch, places: Path) -> None:
    """Order: the environment variable, the installed package, the built jar; otherwise an error that says what to
    install.
    """
    with pytest.raises(ConfigurationError, match=r"pip install 'samsarrow-spark==.*samsarrow-python.* needs no"):
        jar()
    built = a_jar(places / "built" / "samsarrow-spark.jar", version("samsarrow"))
    assert jar() == str(built)
    installed = install(places / "site", version("samsarrow"))
    assert jar() == str(installed)
    mine = places / "mine.jar"
    monkeypatch.setenv(VARIABLE, str(mine))
    with pytest.raises(ConfigurationError, match=rf"{VARIABLE} is .*mine.jar, which has no jar"):
        jar()
    a_jar(mine, version("samsarrow"))
    assert jar() == str(mine)


def test_rejects_jar_of_other_version(monkeypatch: pytest.MonkeyPatch, places: Path) -> None:
    installed = install(places / "site", "0.0.9")
    own = version("samsarrow")
    with pytest.raises(ConfigurationError) as refused:
        jar()
    assert str(refused.value).startswith(
        f"{installed} is version 0.0.9, and samsarrow is {own}: pip install 'samsarrow-spark=={own}'"
    )
    monkeypatch.setenv(VARIABLE, __file__)
    with pytest.raises(ConfigurationError, match="is not a samsarrow jar, or is damaged"):
        jar()
