"""`samsarrow config`: settings of samsarrow, and conversion of settings of other clients."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from samsarrow.cli.commands import CommandGroup
from samsarrow.cli.completion import profiles
from samsarrow.cli.config.defaults_diff import differences
from samsarrow.cli.config.import_ import KINDS, read
from samsarrow.cli.output import output_option, show
from samsarrow.cli.settings import REGISTRY, config_file, environment, kind_of, profile

HIDDEN = "[hidden]"


@click.group(cls=CommandGroup)
def config() -> None:
    """Show settings, and convert those of other clients.

    \b
    Profiles are tables in ~/.config/samsarrow/config.toml:
      default_profile = "local"
      [profiles.local]
      bootstrap_servers = "localhost:9092"
      [profiles.prod]
      bootstrap_servers = "kafka.example.com:9093"
      security_protocol = "SASL_SSL"
      sasl_mechanism = "SCRAM-SHA-512"
      sasl_username = "ann"
      password_command = "pass show kafka/prod"

    Precedence: options of the command line, then the -F file, then variables such as SAMSARROW_BOOTSTRAP_SERVERS, then
    the profile. With --profile the variables are ignored.
    """  # noqa: D301 - click needs the character


def shown(name: str, value: str) -> str:
    """Returns a value for display, with secrets hidden."""
    return HIDDEN if kind_of(name) in ("secret", "unknown") and value and not value.startswith("${") else value


@config.command("show")
@click.option(
    "--profile", "name", metavar="NAME", shell_complete=profiles, help="The profile to use instead of the current one."
)
@output_option
def show_settings(name: str | None, form: str | None) -> None:
    """Show the settings in effect, from the profile and the environment. Secrets are hidden."""
    from samsarrow.config import kafka_name

    found = {kafka_name(option): (value, "profile") for option, value in profile(name).items()}
    if name is None:
        found |= {kafka_name(option): (value, "environment") for option, value in environment().items()}
    if not found:
        click.echo(f"nothing is set in {config_file()} or by SAMSARROW_BOOTSTRAP_SERVERS", err=True)
    rows = [(option, shown(option, value), source) for option, (value, source) in sorted(found.items())]
    show(form, ("option", "value", "from"), rows)


@config.command()
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--kind", type=click.Choice(KINDS), help="The client that the settings are for; by default detected.")
@click.option("--section", metavar="NAME", help="The profile of rpk or the cluster of kaf; by default the current one.")
@click.option("--name", default="default", show_default=True, help="The name of the printed profile.")
@click.pass_context
def check(context: click.Context, path: Path, kind: str | None, section: str | None, name: str) -> None:
    """Convert settings of librdkafka, Java, kcat, rpk or kaf to a profile, and print the differences.

    The file is a properties file, a JSON object as for confluent-kafka, or a YAML file of rpk or kaf. Secrets are not
    printed: a comment says how to set them. The exit code is 1 if an option would be rejected.
    """
    from samsarrow.config import kafka_name

    imported = read(path, kind, section)
    ours = {kafka_name(option): value for option, value in imported.options.items()}
    rejected = _rejected(imported.options)
    click.echo(f"# of {path.name}, read as settings of {imported.kind}")
    click.echo(f"[profiles.{_toml_name(name)}]")
    for option, value in sorted(ours.items()):
        if option not in rejected:
            click.echo(_setting(option, value))
    if combined := _combined_rejection(imported.options, rejected):
        rejected[""] = combined
    lines = [(option, text) for option, text in rejected.items()]
    lines += list(imported.remarks.items()) + differences(imported.kind, ours)
    if lines:
        sys.stdout.flush()
        click.echo("\nDifferences:")
        for option, text in lines:
            click.echo(f"  {option}: {text}" if option else f"  {text}")
    if rejected:
        context.exit(1)


def _setting(option: str, value: str) -> str:
    """Returns a line of the profile. For a secret, a comment with the command that prints it, as a template.

    A placeholder for the secret would be taken for the secret itself by users who copy the profile into their file.
    """
    if shown(option, value) != HIDDEN:
        return f"{_toml(option)} = {_toml(value)}"
    name = "password" if option == "sasl.password" else option.replace(".", "_")
    command = f"{name}_command = {_toml(f'pass show kafka/{name}')}"
    return f"# {option} is not shown. Set a command that prints it:\n# {command}"


def _toml(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)


def _toml_name(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else _toml(name)


def _client(option: str) -> str:
    """Returns the first kind of client that has the option; `consumer` if the option is unknown."""
    from samsarrow.config import options_of

    return next(
        (client for client in ("consumer", "producer", "admin") if options_of(client, {option: ""})), "consumer"
    )


def _rejected(options: dict[str, str]) -> dict[str, str]:
    """Returns the options that a client rejects even if no other option is set, with the reasons."""
    from samsarrow.config import kafka_name, rejection

    reasons = {}
    for option, value in options.items():
        if option.startswith(REGISTRY) and kind_of(option) != "unknown":
            continue
        # `_combined_rejection` checks options that depend on each other, such as the login options.
        alone = kind_of(option) in ("unknown", "plain") and not option.startswith(("sasl.", "ssl.", "security."))
        if (alone or kind_of(option) == "unknown") and (reason := rejection(_client(option), {option: value})):
            reasons[kafka_name(option)] = reason
    return reasons


def _combined_rejection(options: dict[str, str], rejected: dict[str, str]) -> str | None:
    """Returns the reason why a client rejects the combination of all other options, or None."""
    from samsarrow.config import kafka_name, options_of, rejection

    rest = {option: value for option, value in options.items() if kafka_name(option) not in rejected}
    with _each_warning_once():
        reasons = [rejection(client, options_of(client, rest)) for client in ("consumer", "producer", "admin")]
    return next((reason for reason in reasons if reason), None)


@contextmanager
def _each_warning_once() -> Iterator[None]:
    """Hides repeated warnings about options, which each client logs."""
    logger = logging.getLogger("samsarrow.config")
    shown: set[str] = set()

    def is_new(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        new = text not in shown
        shown.add(text)
        return new

    logger.addFilter(is_new)
    try:
        yield
    finally:
        logger.removeFilter(is_new)
