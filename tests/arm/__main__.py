"""`make test-arm`: runs the Rust tests and then the wheel for 64-bit ARM, emulated on this machine.

1. The tests of rust/crc, rust/wire and rust/arrow, cross-compiled with zig (static, musl), run by qemu.
2. The aarch64 wheel (manylinux, zig), with pyarrow's own aarch64 wheel, under an aarch64 Python in qemu:
   `check.py` must print the same as on this machine.

All requirements are downloaded to `.cache/arm`. The speed of emulated code is not that of ARM, so only whole steps are
timed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from arm import prepare
from arm.prepare import CROSS, ROOT, NotHereError

MUSL = "aarch64-unknown-linux-musl"
# Number of cases of the property tests. It is smaller than usual, because emulation is about twenty times slower.
PROPTEST_CASES = "16"


def step(name: str, started: float) -> None:
    """Prints a step and its duration."""
    print(f"arm: {name}: {time.monotonic() - started:.0f} s", flush=True)


def run(command: list[str], env: Mapping[str, str] | None = None) -> None:
    """Runs a command with its output on the terminal."""
    subprocess.run(command, cwd=ROOT, env={**os.environ, **(env or {})}, check=True)


def rust_tests(qemu: Path) -> None:
    """Runs the tests of the crates that parse bytes."""
    env = {
        "PATH": f"{CROSS / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER": str(qemu),
        "PROPTEST_CASES": PROPTEST_CASES,
    }
    packages = ["-p", "samsarrow-crc", "-p", "samsarrow-wire", "-p", "samsarrow-arrow"]
    run([str(CROSS / "bin" / "cargo-zigbuild"), "test", "--target", MUSL, "--profile", "ci", "--quiet", *packages], env)


def wheel_test(qemu: Path, wheel: Path) -> None:
    """Compares the checks of the wheel under emulation with those of the package installed here."""
    python = prepare.python_root()
    packages = prepare.packages(wheel, python.version)
    check = ["-W", "error", str(ROOT / "tests" / "arm" / "check.py")]
    environment = [f"PYTHONHOME={python.root / 'usr'}", f"PYTHONPATH={packages}", "PYTHONDONTWRITEBYTECODE=1"]
    emulated = [str(qemu), "-L", str(python.root)]
    emulated += [part for variable in environment for part in ("-E", variable)]
    there = output([*emulated, str(python.executable), *check])
    here = output([sys.executable, *check])
    if there.pop("machine") != "aarch64":
        raise SystemExit("arm: the emulated Python does not run on aarch64")
    here.pop("machine")
    different = sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))
    if different:
        lines = [f"  {name}: here {here.get(name)}, on aarch64 {there.get(name)}" for name in different[:20]]
        raise SystemExit("arm: {} of {} results differ:\n{}".format(len(different), len(here), "\n".join(lines)))
    print(f"arm: {len(here)} results are the same on both: {there['summary']}", flush=True)


def output(command: list[str]) -> dict[str, object]:
    """Returns the JSON object that a command prints."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=1800)
    result: dict[str, object] = json.loads(done.stdout)
    return result


def main() -> None:
    """Runs all steps."""
    wheel = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    if wheel is None or not wheel.is_file():
        raise SystemExit("usage: python tests/arm WHEEL (for aarch64; `make test-arm` builds it)")
    try:
        started = time.monotonic()
        qemu = prepare.qemu()
        prepare.rust_target(MUSL)
        step("qemu and Rust's target", started)
        started = time.monotonic()
        rust_tests(qemu)
        step("tests of rust/crc, rust/wire and rust/arrow", started)
        started = time.monotonic()
        wheel_test(qemu, wheel)
        step("the wheel with pyarrow", started)
    except NotHereError as error:
        raise SystemExit(f"arm: cannot be run here: {error}") from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"arm: failed with status {error.returncode}: {' '.join(map(str, error.cmd))}") from None


main()
