"""Option `-v` of the command line: log lines on standard error."""

import logging

import click
import pytest

from samsarrow.cli import cli


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("-v topics list", "INFO"),
        ("topics list -v", "INFO"),
        ("topics -v list", "INFO"),
        ("topics list -vv", "DEBUG"),
        ("-v topics list -v", "DEBUG"),
        ("-vvv topics list", "TRACE"),
        ("--verbose topics list --verbose -vvv", "TRACE"),
    ],
)
def test_log_lines_go_to_stderr(command, line, level):
    plain = command("topics", "list", "-o", "json")
    done = command(*line.split(), "-o", "json")
    assert done.out == plain.out
    assert plain.err == ""
    lines = done.err.splitlines()
    assert {text.split()[2] for text in lines} == {"INFO": set(), "DEBUG": {"DEBUG"}, "TRACE": {"DEBUG", "TRACE"}}[
        level
    ]
    assert all(text.split()[3].startswith("samsarrow.") for text in lines), lines
    # Later commands of this process are quiet again.
    assert logging.getLogger("samsarrow").level == logging.NOTSET


def test_info_lines_of_a_group(command):
    command("produce", "t", stdin=b"x\n")
    done = command("consume", "t", "-g", "g", "-v")
    assert "x" in done.out
    assert "INFO" not in done.out
    assert "INFO samsarrow.group: joined generation 1" in done.err
    assert "INFO samsarrow.group: partitions assigned: t-0" in done.err
    assert "INFO samsarrow.group: left the group" in done.err


def test_every_command_has_the_option():
    context = click.Context(cli)

    def walk(group: click.Group, path: str) -> list[str]:
        lacking = []
        for name in group.list_commands(context):
            found = group.get_command(context, name)
            assert found is not None
            if not any("-v" in param.opts for param in found.params):
                lacking.append(f"{path} {name}")
            if isinstance(found, click.Group):
                lacking += walk(found, f"{path} {name}")
        return lacking

    assert walk(cli, "samsarrow") == []
