"""Parsing of config changes on the command line: NAME=VALUE, NAME+=VALUE, NAME-=VALUE."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from samsarrow.admin_types import ConfigChange

# The name ends at the first `=`; the value may contain further `=`, `+` and `-`.
_CHANGE = re.compile(r"\s*([^=\s]+?)\s*(\+=|-=|=)(.*)", re.DOTALL)

unset_option = click.option(
    "--unset", multiple=True, metavar="NAME", help="A setting to reset to its default; repeatable."
)


def changes_of(given: Sequence[str], unset: Sequence[str] = ()) -> ConfigChange:
    """Parses config changes of the command line.

    Args:
        given: changes as texts: `retention.ms=1000` sets a value, `cleanup.policy+=compact` adds a value to a list,
            `cleanup.policy-=delete` removes a value from a list.
        unset: names of settings to reset to their defaults.

    Raises:
        click.UsageError: a text is not a change, or a setting is changed twice.
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
