"""Changes of settings, as commands take them: NAME=VALUE, NAME+=VALUE, NAME-=VALUE."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from samsarrow.admin_types import ConfigChange

# What stands before the first = is the name: values may have any sign in them.
_CHANGE = re.compile(r"\s*([^=\s]+?)\s*(\+=|-=|=)(.*)", re.DOTALL)

unset_option = click.option(
    "--unset", multiple=True, metavar="NAME", help="A setting to reset to its default; repeatable."
)


def changes_of(given: Sequence[str], unset: Sequence[str] = ()) -> ConfigChange:
    """The changes that a command line names.

    Args:
        given: `retention.ms=1000` sets, `cleanup.policy+=compact` adds to a list, `cleanup.policy-=delete` takes out.
        unset: names of settings that get their defaults.

    Raises:
        click.UsageError: one is no change, or a setting is named twice.
    """
    kinds: dict[str, dict[str, str]] = {"=": {}, "+=": {}, "-=": {}}
    names = [name.strip() for name in unset]
    for text in given:
        found = _CHANGE.fullmatch(text)
        if found is None:
            raise click.UsageError(
                f"{text!r} is not a change of a setting: use NAME=VALUE, or NAME+=VALUE and NAME-=VALUE for lists, for "
                "example cleanup.policy=compact"
            )
        name, kind, value = found.groups()
        kinds[kind][name] = value.strip()
        names.append(name)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise click.UsageError(f"{twice[0]} is changed twice: brokers take one change of a setting at a time")
    if "" in names:
        raise click.UsageError("--unset '' names no setting")
    deleted = tuple(name.strip() for name in unset)
    return ConfigChange(set=kinds["="], delete=deleted, append=kinds["+="], subtract=kinds["-="])
