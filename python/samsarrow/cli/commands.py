"""Classes of all commands: help in sections, and hints for names that do not exist."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from difflib import get_close_matches
from functools import partial
from typing import Any

import click

# Names of commands in other tools, with the names here.
SYNONYMS = {
    "add": ("create", "set", "add"), "add-partitions": ("alter",), "backup": ("export",), "cat": ("consume",),
    "change": ("alter", "set"), "console-consumer": ("consume",), "console-producer": ("produce",),
    "consumer-groups": ("groups",), "create": ("add", "set"), "edit": ("alter", "set"),
    "get": ("describe", "show", "get"), "grow": ("alter",), "info": ("describe", "show"), "ls": ("list",),
    "new": ("create",), "publish": ("produce",), "read": ("consume",), "registry": ("schema",),
    "remove": ("delete", "remove"), "remove-member": ("kick",), "restore": ("import",), "rm": ("delete", "remove"),
    "save": ("export",), "send": ("produce",), "show": ("describe", "show"), "subscribe": ("consume",),
    "tail": ("consume",), "transactions": ("txns",), "write": ("produce",),
}  # fmt: skip
# Options of other tools and of earlier versions: the option here, and a text for the error. An entry applies to
# commands that have the option; an empty option applies to all commands.
OPTION_HINTS: dict[str, tuple[tuple[str, str], ...]] = {
    "--bootstrap-server": (("--bootstrap-servers", "-b HOST:PORT names the cluster"),),
    "--broker-list": (("--bootstrap-servers", "-b HOST:PORT names the cluster"),),
    "--command-property": (("-X", "-X NAME=VALUE sets a client option"),),
    "--config": (("-X", "-X NAME=VALUE sets a client option"),),
    "--consumer.config": (("-F", "-F FILE reads client options"),),
    "--delete-config": (("--unset", "--unset NAME restores a default"),),
    "--execute": (("--dry-run", "the command writes unless --dry-run is set"),),
    "--format": (("--output", "-o FORMAT sets the format of the output"),),
    "--from-beginning": (("--from", "use --from earliest"),),
    "--json": (("--output", "use -o json"),),
    "--max-messages": (("--count", "-n N limits the number of records"),),
    "--output": (("--json", "use --json"),),
    "--producer.config": (("-F", "-F FILE reads client options"),),
    "--property": (("-X", "-X NAME=VALUE sets a client option"),),
    "--topic": (("", "name the topic without --topic"),),
    "--yes": (("--dry-run", "the command does not ask for confirmation: leave it out"),),
    "-o": (("--json", "use --json"),),
}
# Metavars of options whose values are names. Empty names are errors, as for arguments.
NAMES = frozenset({"GROUP", "NAME", "TOPIC"})


class Option(click.Option):
    """An option with a section of the help, and with names that the help does not show.

    Args:
        *arguments: arguments of `click.Option`.
        section: title of the section.
        old: names of earlier versions, and of other tools, which are accepted too.
        **settings: arguments of `click.Option`.
    """

    def __init__(self, *arguments: Any, section: str = "Options", old: Sequence[str] = (), **settings: Any) -> None:
        [names, *others] = arguments
        super().__init__([*names, *old], *others, **settings)
        self.section = section
        self._old = frozenset(old)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Returns the names and the text for the help."""
        shown = copy(self)
        shown.opts = [name for name in self.opts if name not in self._old]
        return click.Option.get_help_record(shown, ctx)

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Returns the names for errors."""
        return " / ".join(f"'{name}'" for name in self.opts if name not in self._old)


def section(title: str) -> Callable[..., Callable[[Callable[..., None]], Callable[..., None]]]:
    """Returns a function like `click.option`, whose options are in a section of the help."""
    return partial(click.option, cls=Option, section=title)


CONNECTION = "Connection"


class Command(click.Command):
    """A command whose help has options in sections, and whose errors about options have hints."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options: those without a section first, those of the connection last."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        help_record: list[tuple[str, str]] = []
        help_option = self.get_help_option(ctx)
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                title = getattr(param, "section", "Options")
                general = param is help_option or param.name == "verbose"
                (help_record if general else sections.setdefault(title, [])).append(record)
        last = sections.pop(CONNECTION, None)
        if last is not None:
            sections[CONNECTION] = last
        sections["Options" if sections["Options"] else list(sections)[-1]] += help_record
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the command line; adds a hint to the error about an option that does not exist.

        Raises:
            click.UsageError: the command line is invalid, or has an empty name.
        """
        try:
            rest = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            existing = {name for param in self.params for name in param.opts}
            for option, hint in OPTION_HINTS.get(error.option_name, ()):
                if not option or option in existing:
                    raise click.UsageError(f"{error.message.rstrip('.')}: {hint}", ctx) from None
            raise
        if not ctx.resilient_parsing:
            self._check_names(ctx)
        return rest

    def _check_names(self, ctx: click.Context) -> None:
        """Rejects empty names, which scripts pass if a variable is not set."""
        for param in self.params:
            if isinstance(param, click.Argument) or param.metavar in NAMES:
                value = ctx.params.get(param.name or "")
                if "" in (value if isinstance(value, tuple | list) else (value,)):
                    raise click.BadParameter("the name is empty; is a variable of the shell not set?", ctx, param)


class CommandGroup(click.Group):
    """A group of commands, whose error about a command that does not exist suggests others."""

    command_class = Command
    group_class = type

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the command line up to the command; adds a hint to the error about an option before the command.

        Raises:
            click.UsageError: the command line is invalid.
        """
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.possibilities:
                raise
            example = f"{ctx.command_path} COMMAND {error.option_name}"
            raise click.UsageError(
                f"{error.message.rstrip('.')} here: options follow the command, as in `{example} …`", ctx
            ) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command to run.

        Raises:
            click.UsageError: the command does not exist.
        """
        name = args[0]
        if ctx.resilient_parsing or name.startswith("-") or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        suggested = self.suggestions(ctx, name)
        did_you_mean = f" Did you mean {_either([f'{text!r}' for text in suggested])}?" if suggested else ""
        raise click.UsageError(f"No such command {name!r}.{did_you_mean}", ctx)

    def suggestions(self, ctx: click.Context, name: str) -> list[str]:
        """Returns the names of commands that the user may have meant, at most six."""
        names = self.list_commands(ctx)
        lower = name.lower()
        same = [known for known in SYNONYMS.get(lower, ()) if known in names]
        # Every short name is similar to another, such as `ls` to `acls`.
        close = get_close_matches(lower, names, cutoff=0.65) if len(lower) > 2 else []
        return (same or close or self._nested(ctx, names, lower))[:6]

    def _nested(self, ctx: click.Context, names: Iterable[str], name: str) -> list[str]:
        """Returns commands of subgroups: `groups lag` for `lag`."""
        groups = ((group, self.get_command(ctx, group)) for group in names)
        return [
            f"{group} {name}"
            for group, command in groups
            if isinstance(command, click.Group) and name in command.list_commands(ctx)
        ]


def _either(texts: Sequence[str]) -> str:
    return " or ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else texts[0]
