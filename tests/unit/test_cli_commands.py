"""The list of commands, and properties that all commands have."""

import click
import pytest

from samsarrow.cli import cli

CONTEXT = click.Context(cli)
NAMES = cli.list_commands(CONTEXT)


def commands(group=cli, path=()):
    for name in group.list_commands(CONTEXT):
        command = group.get_command(CONTEXT, name)
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


@pytest.mark.parametrize("name", NAMES)
def test_every_listed_command_can_be_loaded(name):
    command = cli.get_command(CONTEXT, name)
    assert command.name == name
    assert name in cli.get_help(CONTEXT)


def test_every_command_and_option_has_help():
    everything = dict(commands())
    assert ("topics", "list") in everything
    silent = [path for path, command in everything.items() if not command.help]
    silent += [
        (*path, option.name)
        for path, command in everything.items()
        for option in command.params
        if isinstance(option, click.Option) and not option.help
    ]
    assert silent == []


def test_exit_codes_are_in_the_help():
    assert "3  failed in part" in cli.get_help(CONTEXT)
