"""Figures that a test measures besides what it asserts."""

import sys


def tell(figure: str) -> None:
    """Writes a line that `pytest -s` shows, and that a failure reports."""
    sys.stdout.write(f"{figure}\n")
