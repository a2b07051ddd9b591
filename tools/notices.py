"""Writes THIRD-PARTY-NOTICES: whose code is in the wheels, on which terms. Part of `make generate`.

It goes into each wheel and into the source distribution, for all the targets that deny.toml checks licences for.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "jvm"))

import crates  # noqa: E402

PAGE = ROOT / "THIRD-PARTY-NOTICES"
HEAD = (
    "The compiled module of samsarrow has Rust crates of others linked into it, some of them for one system only, and\n"
    "Rust's standard library (MIT OR Apache-2.0, The Rust Project Developers). LICENSE has the text of Apache-2.0."
)


def page() -> str:
    """The whole text."""
    targets = tomllib.loads((ROOT / "deny.toml").read_text())["graph"]["targets"]
    return crates.notices(crates.linked(targets, "samsarrow-py"), HEAD)


if __name__ == "__main__":
    PAGE.write_text(page())
