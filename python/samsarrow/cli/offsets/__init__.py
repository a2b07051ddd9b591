"""`samsarrow offsets`: show, export, set, copy and delete committed offsets."""

from __future__ import annotations

from copy import copy as copy_of

import click

from samsarrow.cli import groups
from samsarrow.cli.commands import CommandGroup
from samsarrow.cli.offsets.delete import delete
from samsarrow.cli.offsets.import_copy import copy, import_, migrate
from samsarrow.cli.offsets.reset import reset
from samsarrow.cli.offsets.show import describe, export


@click.group(cls=CommandGroup)
def offsets() -> None:
    """Show and change the offsets of consumer groups.

    Commands that write print the changes first, read them back afterwards, and can be repeated. Exit code 1 also means
    that the offsets read back differ from those written.
    """


# Kept for scripts: the same command as `samsarrow groups list`.
list_groups = copy_of(groups.list_groups)
list_groups.hidden = True

for command in (list_groups, describe, export, import_, reset, copy, migrate, delete):
    offsets.add_command(command)
