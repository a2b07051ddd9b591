"""`samsarrow offsets`: looked at, written down, set, moved and deleted."""

from __future__ import annotations

import click

from samsarrow.cli.offsets.delete import delete
from samsarrow.cli.offsets.import_copy import copy, import_, migrate
from samsarrow.cli.offsets.reset import reset
from samsarrow.cli.offsets.show import describe, export, list_groups


@click.group()
def offsets() -> None:
    """Look at and move the offsets of consumer groups.

    Commands that write say what changes before they do, read back afterwards, and end right when they are run again.
    Exit code 1 also says that something else was read back than written.
    """


for command in (list_groups, describe, export, import_, reset, copy, migrate, delete):
    offsets.add_command(command)
