"""Error of commands that succeeded for some items and failed for others."""

from __future__ import annotations

import click


class PartialFailure(click.ClickException):
    """Some items of a command succeeded and some failed. The exit code is 3."""

    exit_code = 3
