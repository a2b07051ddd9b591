"""If the machine or the environment does not meet a requirement, an ImportError names the requirement."""

import subprocess
import sys
from pathlib import Path

import pytest

from samsarrow import _cpu_check

NEW = "fpu sse sse2 ssse3 cx16 sse4_1 sse4_2 popcnt pni avx2"


@pytest.fixture
def cpuinfo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    class Uname:
        machine = "x86_64"

    monkeypatch.setattr(_cpu_check.os, "uname", Uname)
    return tmp_path / "cpuinfo"


def written(path: Path, flags: str) -> str:
    path.write_text(f"processor\t: 0\nmodel name\t: CPU\nflags\t\t: {flags}\nbugs\t\t:\n\nprocessor\t: 1\n")
    return str(path)


def test_cpu_before_x86_64_v2_is_an_import_error(cpuinfo: Path) -> None:
    _cpu_check.check(written(cpuinfo, NEW))
    with pytest.raises(ImportError, match=r"needs a CPU with x86-64-v2 .* lacks popcnt, sse4_2"):
        _cpu_check.check(written(cpuinfo, NEW.replace("sse4_2 popcnt", "")))


def test_unreadable_cpu_flags_are_ignored(cpuinfo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _cpu_check.check(str(cpuinfo / "missing"))
    cpuinfo.write_text("processor\t: 0\nFeatures\t: fp asimd\n")
    _cpu_check.check(str(cpuinfo))
    # The file is truncated within the flags.
    cpuinfo.write_text("processor\t: 0\nflags\t\t: fpu sse")
    _cpu_check.check(str(cpuinfo))
    monkeypatch.setattr(_cpu_check.os, "uname", lambda: type("Uname", (), {"machine": "aarch64"}))
    _cpu_check.check(written(cpuinfo, "fpu"))


def test_cpu_is_checked_before_the_core_is_loaded() -> None:
    code = """
import builtins, os, sys
real = builtins.open
def fake(path, *args, **options):
    if path == "/proc/cpuinfo":
        read, write = os.pipe()
        os.write(write, b"processor\\t: 0\\nflags\\t\\t: fpu sse sse2\\nbugs\\t\\t:\\n")
        os.close(write)
        path = read
    return real(path, *args, **options)
builtins.open = fake
os.uname = lambda: type("Uname", (), {"machine": "x86_64"})
try:
    import samsarrow
except ImportError as error:
    assert "samsarrow._core" not in sys.modules and "pyarrow" not in sys.modules
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("samsarrow needs a CPU with x86-64-v2")


@pytest.mark.parametrize("module", ["samsarrow.spark", "pyspark_samsarrow"])
@pytest.mark.parametrize(
    ("pyspark", "text"),
    [
        (
            "types.SimpleNamespace(__version__='3.5.9')",
            "samsarrow.spark needs Spark 4.0 or later, and this is PySpark 3.5.9",
        ),
        ("None", "samsarrow.spark needs Spark 4.0 or later: pip install 'pyspark[sql]>=4.0' 'pandas<3'"),
    ],
)
def test_missing_or_old_pyspark_is_an_import_error(module: str, pyspark: str, text: str) -> None:
    code = f"import sys, types; sys.modules['pyspark'] = {pyspark}; import {module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.strip().rpartition("\n")[2].startswith(f"ImportError: {text}")
