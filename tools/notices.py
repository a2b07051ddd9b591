"""Generates THIRD-PARTY-NOTICES: the licences of the code in the wheels. Part of `make generate`.

The file is part of each wheel and of the source distribution, and covers all targets listed in deny.toml.
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
    """Returns the text of the file."""
    targets = tomllib.loads((ROOT / "deny.toml").read_text())["graph"]["targets"]
    return crates.notices(crates.linked(targets, "samsarrow-py"), HEAD)


if __name__ == "__main__":
    PAGE.write_text(page())
