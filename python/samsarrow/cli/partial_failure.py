"""Error of commands that failed in part."""

from __future__ import annotations

import click


class PartialFailure(click.ClickException):
    """Some items of a command succeeded and some failed: exit code 3."""

    exit_code = 3
