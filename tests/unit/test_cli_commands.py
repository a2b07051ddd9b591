"""The list of commands, and properties that all commands have."""

import subprocess
import sys
import time

import click
import pytest
from click.testing import CliRunner

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


@pytest.mark.parametrize(
    ("arguments", "suggested"),
    [
        (["topic", "list"], "'topics'"), (["consum", "t"], "'consume'"), (["produces"], "'produce'"),
        (["read", "t"], "'consume'"), (["ls"], ""), (["consumer-groups"], "'groups'"), (["lag"], "'groups lag'"),
        (["topics", "lst"], "'list'"), (["topics", "ls"], "'list'"), (["topics", "rm", "t"], "'delete'"),
        (["groups", "describes"], "'describe'"), (["offsets", "rest"], "'reset'"), (["schema", "get"], "'show'"),
        (["describe", "t"], "'topics describe'"), (["xyzzy"], ""), (["offsets", "save", "g"], "'export'"),
        (["topics", "grow", "t"], "'alter'"), (["groups", "remove-member", "g"], "'kick'"), (["registry"], "'schema'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_misspelt_commands_have_a_hint(arguments, suggested):
    done = CliRunner().invoke(cli, arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    wrong = arguments[1] if arguments[0] in ("topics", "groups", "offsets", "schema") else arguments[0]
    assert f"No such command '{wrong}'." in done.stderr
    assert ("Did you mean" in done.stderr) == bool(suggested)
    assert suggested in done.stderr


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["topics", "list", "--bootstrap-server", "h:1"], "-b HOST:PORT names the cluster"),
        (["topics", "list", "--config", "client.id=x"], "-X NAME=VALUE sets a client option"),
        (["topics", "describe", "--topic", "t"], "name the topic without --topic"),
        (["topics", "list", "--json"], "use -o json"),
        (["groups", "list", "--format", "csv"], "-o FORMAT sets the format of the output"),
        (["topics", "list", "--outptu", "csv"], "--output"),
        (["offsets", "reset", "g", "--execute"], "the command writes unless --dry-run is set"),
        (["offsets", "reset", "g", "--yes"], "the command does not ask for confirmation: leave it out"),
        (["doctor", "-o", "json"], "use --json"),
        (["-b", "h:1", "topics", "list"], "options follow the command"),
        (["topics", "list", "-o", "xml"], "'xml' is not one of 'table', 'json', 'ndjson', 'csv'"),
        (["topics", "list", "-o", "topics.csv"], "> topics.csv writes it to a file"),
        (["offsets", "export", "g", "-o", "g.json"], "-O g.json writes it to a file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_of_other_tools_have_a_hint(arguments, hint):
    started = time.monotonic()
    done = CliRunner().invoke(cli, arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert hint in done.stderr
    assert time.monotonic() - started < 1


def test_options_are_in_sections():
    text = CliRunner().invoke(cli, ["consume", "--help"]).stdout
    titles = [line.removesuffix(":") for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Range", "Group", "Filters", "Keys and values", "Output", "Connection"]
    assert text.count("--help") == 1
    text = CliRunner().invoke(cli, ["topics", "create", "--help"]).stdout
    assert text.index("Options:") < text.index("--config NAME=VALUE") < text.index("Connection:") < text.index("-X")


def test_one_vocabulary_of_options():
    """One name selects the output format, one its file, one a partition; older names are accepted and not shown."""
    for path, command in commands():
        shown = {
            name: option
            for option in command.params
            if isinstance(option, click.Option) and not option.hidden
            for name in (option.get_help_record(click.Context(command)) or ("",))[0].replace(",", " ").split()
        }
        assert "--json" not in shown or path in (("doctor",), ("top",)), path
        assert "--as" not in shown, path
        assert "--format" not in shown or path in (("produce",), ("offsets", "import")), path
        assert "-o" not in shown or shown["-o"] is shown["--output"], path
        folder_or_file = "--output-folder" if path == ("backup",) else "--output-file"
        assert "-O" not in shown or shown["-O"] is shown[folder_or_file], path
        assert "-p" not in shown or shown["-p"] is shown["--partition"], path
        assert "--config" not in shown or path in (("topics", "create"), ("topics", "alter"), ("restore",)), path


def test_exit_codes_are_in_the_help():
    assert "3  failed in part" in cli.get_help(CONTEXT)


def test_commands_do_not_import_numpy_and_pandas():
    # pyarrow imports NumPy, which takes longer than pyarrow itself, and in the first `pa.array` pandas.
    program = (
        "import sys\nfrom samsarrow.cli import main\nsys.argv = ['samsarrow', '--version']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "import pyarrow as pa\nassert pa.array([1]).to_pylist() == [1]\nimport pyarrow.parquet\n"
        "import samsarrow.cli.consume.job\n"
        "assert not {'numpy', 'pandas', 'samsarrow.admin'} & sys.modules.keys()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "list", ""], ["topics", "create", "t", ""], ["topics", "delete", "", "--yes"], ["consume", ""],
        ["consume", "t", "-g", ""], ["produce", ""], ["groups", "lag", ""], ["offsets", "export", ""],
        ["txns", "fence", ""], ["doctor", "--topic", ""], ["doctor", "--group", ""], ["top", ""],
        ["top", "--topic", ""], ["topics", "list", "--profile", ""], ["acls", "list", "--topic", ""],
    ],
    ids=" ".join,
)  # fmt: skip
def test_empty_names_are_wrong_usage(arguments):
    done = CliRunner().invoke(cli, [*arguments, *([] if "doctor" in arguments else ["-b", "localhost:1"])])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "the name is empty" in done.stderr
