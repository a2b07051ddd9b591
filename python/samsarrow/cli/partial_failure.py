"""Commands of which a part failed."""

from __future__ import annotations

import click


class PartialFailure(click.ClickException):
    """Some of it is done, some failed: exit code 3."""

    exit_code = 3
