"""Environments in which a wheel is tested: Pythons with only the wheel and its dependencies.

On x86-64 with glibc these are this Python, which is the oldest supported version, and Debian's newest; on 64-bit ARM,
Python runs under emulation. No Python for musl is available.
"""

from __future__ import annotations

import os
import platform as machine
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from arm import prepare
from exits import pythons
from wheels.audit import ROOT, WheelError

SMOKE = ROOT / "tests" / "wheels" / "smoke.py"
# Newest Python of Debian's unstable suite for which pyarrow has wheels.
NEWEST = "3.15"
# The first example of the README, and its output.
FIRST_SCREEN = re.compile(r"## The first batch.*?```python\n(.*?)```.*?It prints `(.*?)`", re.DOTALL)
PIP = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]


def results(wheel: Path, platform: str) -> Iterator[str]:
    """Yields a line for each Python."""
    if platform == f"manylinux_2_17_{machine.machine()}":
        yield in_virtual_environment(wheel)
        try:
            yield on_newest_python(wheel)
        except pythons.NotHereError as error:
            yield f"Python {NEWEST} cannot be had: {str(error).splitlines()[0]}"
    elif platform == "manylinux_2_17_aarch64":
        try:
            yield emulated(wheel)
        except prepare.NotHereError as error:
            yield f"not imported: {str(error).splitlines()[0]}"


def in_virtual_environment(artifact: Path) -> str:
    """Tests a wheel, or a source distribution, which pip builds first, in a virtual environment of this Python."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = str(Path(folder) / "bin" / "python")
        subprocess.run([python, *PIP, str(artifact.absolute())], check=True, env=_clean())
        return _smoke([python, "-W", "error"], f"Python {machine.python_version()}", folder)


def on_newest_python(wheel: Path) -> str:
    """Installs a wheel into a folder, and tests it with Debian's newest Python."""
    python = str(pythons.unpacked(NEWEST))
    packages = pythons.CACHE / f"wheel-{NEWEST}"
    shutil.rmtree(packages, ignore_errors=True)
    chosen = ["--only-binary=:all:", "--python-version", NEWEST, "--target", str(packages)]
    pythons.call([sys.executable, *PIP, *chosen, str(wheel.absolute())], f"what the wheel needs on Python {NEWEST}")
    with tempfile.TemporaryDirectory() as folder:
        return _smoke([python, "-W", "error"], f"Python {NEWEST}", folder, PYTHONPATH=str(packages))


def emulated(wheel: Path) -> str:
    """Tests a wheel with Debian's Python for 64-bit ARM under qemu."""
    qemu, python = prepare.qemu(), prepare.python_root()
    packages = prepare.packages(wheel, python.version)
    variables = [f"PYTHONHOME={python.root / 'usr'}", f"PYTHONPATH={packages}", "PYTHONDONTWRITEBYTECODE=1"]
    command = [str(qemu), "-L", str(python.root)]
    command += [part for variable in variables for part in ("-E", variable)]
    with tempfile.TemporaryDirectory() as folder:
        where = f"Python {python.version} on aarch64 under emulation"
        return _smoke([*command, str(python.executable)], where, folder)


def _smoke(python: list[str], where: str, folder: str, **variables: str) -> str:
    """Returns the output of `smoke.py` and of the README's first example in that environment."""
    [(code, expected)] = FIRST_SCREEN.findall((ROOT / "README.md").read_text())
    env = {**_clean(), **variables}
    events = []
    for program in ([str(SMOKE)], ["-c", code]):
        done = subprocess.run(
            [*python, *program], cwd=folder, env=env, capture_output=True, text=True, timeout=900, check=False
        )
        if done.returncode != 0:
            raise WheelError(f"{where}:\n{done.stdout}{done.stderr}")
        events.append(done.stdout.strip())
    checks, first = events
    if first != expected:
        raise WheelError(f"{where}: the README's first screen prints {first!r} instead of {expected!r}")
    return f"{where}: {checks} checks, and the README's first screen"


def _clean() -> dict[str, str]:
    """Returns the environment without variables that would import the checkout's package."""
    return {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    }
