"""The extension and the jar contain nothing of the simulation (ADR 65)."""

import mmap
import subprocess
from pathlib import Path

import pytest

import samsarrow._core

ROOT = Path(__file__).resolve().parents[2]
NETWORK = "samsarrow-simnet"
# Part of a message of the simulated network, present in every build that contains the network.
MESSAGE = b"no simulated network is installed"


def dependencies(crate: str, *features: str) -> str:
    """Returns the crates of a build with their features, without development dependencies."""
    command = ["cargo", "tree", "--locked", "--offline", "-e", "features,no-dev", "--prefix", "none", "-p", crate]
    command += [part for feature in features for part in ("--features", feature)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=120, text=True).stdout


@pytest.mark.parametrize(
    ("crate", "features"),
    [
        ("samsarrow-py", ["extension-module"]),
        ("samsarrow-py", ["extension-module", "samsarrow-spark/tests"]),
        ("samsarrow-jvm", []),
        ("samsarrow-jvm", ["samsarrow-spark/tests"]),
    ],
)
def test_builds_have_no_simulated_network(crate: str, features: list[str]) -> None:
    assert NETWORK not in dependencies(crate, *features)


def test_builds_of_the_simulation_have_it() -> None:
    # Without this, the other tests would pass after the crate or its message has another name.
    assert NETWORK in dependencies("samsarrow-simulation", "simulation")
    assert any(MESSAGE in path.read_bytes() for path in (ROOT / "rust" / "simnet" / "src").glob("*.rs"))


def test_the_extension_has_no_simulated_network() -> None:
    with (
        Path(samsarrow._core.__file__).open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        assert [part for part in (MESSAGE, b"simnet") if content.find(part) >= 0] == []
