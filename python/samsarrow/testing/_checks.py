"""Checks of arguments."""

from operator import index


def in_range(name: str, number: int, least: int, most: int) -> int:
    """Returns the number.

    Raises:
        TypeError: it is not an integer.
        ValueError: it is out of range.
    """
    try:
        checked = index(number)
    except TypeError:
        raise TypeError(f"{name} must be an int, not {type(number).__name__}") from None
    if not least <= checked <= most:
        raise ValueError(f"{name}={checked}: it must be from {least} to {most}")
    return checked
