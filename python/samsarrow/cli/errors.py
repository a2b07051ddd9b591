"""Errors of commands that are not wrong usage."""

from __future__ import annotations

import click


class PartialFailure(click.ClickException):
    """Some items of a command succeeded and some failed. The exit code is 3."""

    exit_code = 3


class NotFound(click.ClickException):
    """The cluster or the registry does not have a named item. The exit code is 1.

    Args:
        item: kind and name of the item, such as `topic orders`.
        where: place in which it was looked up: the bootstrap servers, or `the registry`.
        hint: another sentence, such as a command that creates the item.
    """

    def __init__(self, item: str, where: str, hint: str = "") -> None:
        super().__init__(
            f"there is no {item} at {where}, or this client has no permission to describe it"
            + (f"; {hint}" if hint else "")
        )


class NoSuchPartition(click.ClickException):
    """A topic does not have a partition with this number. The exit code is 1."""

    def __init__(self, topic: str, count: int, partition: int) -> None:
        has = "only partition 0" if count == 1 else f"{count} partitions, 0 to {count - 1}"
        super().__init__(f"topic {topic} has {has}: there is no partition {partition}")
