"""`samsarrow config`: settings, ours and others'."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from samsarrow.cli.completion import profiles
from samsarrow.cli.config.defaults_diff import differences
from samsarrow.cli.config.import_ import KINDS, read
from samsarrow.cli.output import output_option, show
from samsarrow.cli.settings import REGISTRY, config_file, environment, kind_of, profile
from samsarrow.exceptions import ConfigurationError

HIDDEN = "[hidden]"


@click.group()
def config() -> None:
    """Look at settings, and take over those of other clients.

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

    What is nearer wins: options of the command line, then the -F file, then SAMSARROW_BOOTSTRAP_SERVERS and the like,
    then the profile. With --profile those variables are left alone.
    """  # noqa: D301 - the character that click wants


def shown(name: str, value: str) -> str:
    """A value for the eye."""
    return HIDDEN if kind_of(name) in ("secret", "unknown") and value and not value.startswith("${") else value


@config.command("show")
@click.option(
    "--profile", "name", metavar="NAME", shell_complete=profiles, help="The profile to use instead of the current one."
)
@output_option
def show_settings(name: str | None, form: str | None) -> None:
    """Show what applies here: of the profile and of the environment. Secrets are hidden."""
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
@click.option("--name", default="default", show_default=True, help="Of the profile that is printed.")
@click.pass_context
def check(context: click.Context, path: Path, kind: str | None, section: str | None, name: str) -> None:
    """Read settings of librdkafka, Java, kcat, rpk or kaf: print them as a profile of ours, and what will differ.

    Properties files, JSON objects as programs pass to confluent-kafka, and the YAML files of rpk and kaf are read.
    Secrets are hidden. Exit code 1: an option would be refused.
    """
    from samsarrow.config import kafka_name

    found = read(path, kind, section)
    ours = {kafka_name(option): value for option, value in found.options.items()}
    refused = _refused(found.options)
    click.echo(f"# of {path.name}, read as settings of {found.kind}")
    click.echo(f"[profiles.{_toml_name(name)}]")
    for option, value in sorted(ours.items()):
        if option not in refused:
            click.echo(f"{_toml(option)} = {_toml(shown(option, value))}")
    if whole := _whole(found.options, refused):
        refused[""] = whole
    lines = [(option, text) for option, text in refused.items()]
    lines += list(found.remarks.items()) + differences(found.kind, ours)
    if lines:
        sys.stdout.flush()
        click.echo("\nwhat will differ:", err=False)
        for option, text in lines:
            click.echo(f"  {option}: {text}" if option else f"  {text}")
    if refused:
        context.exit(1)


def _toml(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)


def _toml_name(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else _toml(name)


def _client(option: str) -> str:
    """A client that has an option."""
    from samsarrow.config import options_of

    return next(
        (client for client in ("consumer", "producer", "admin") if options_of(client, {option: ""})), "consumer"
    )


def _try(client: str, options: dict[str, str]) -> str | None:
    """Why a client would refuse options. Making one connects to nothing."""
    from samsarrow import _core
    from samsarrow.config import kafka_name, merge

    named = {kafka_name(option) for option in options}
    somewhere = {} if "bootstrap.servers" in named else {"bootstrap.servers": "localhost:9092"}
    pairs = merge({**somewhere, **options}, {})
    try:
        if client == "consumer":
            _core.Consumer(pairs, []).close(0.0).wait()
        elif client == "producer":
            _core.Producer(pairs).close(0.0, False).wait()
        else:
            _core.Admin(pairs).close()
    except ConfigurationError as error:
        return str(error)
    return None


def _refused(options: dict[str, str]) -> dict[str, str]:
    """Options of which one alone says why it is not taken: its name, or its value."""
    from samsarrow.config import kafka_name

    found = {}
    for option, value in options.items():
        if option.startswith(REGISTRY) and kind_of(option) != "unknown":
            continue
        # What belongs together, as a login, is looked at together.
        alone = kind_of(option) in ("unknown", "plain") and not option.startswith(("sasl.", "ssl.", "security."))
        if (alone or kind_of(option) == "unknown") and (why := _try(_client(option), {option: value})):
            found[kafka_name(option)] = why
    return found


def _whole(options: dict[str, str], refused: dict[str, str]) -> str | None:
    """Why all the rest of them together are refused."""
    from samsarrow.config import kafka_name, options_of

    rest = {option: value for option, value in options.items() if kafka_name(option) not in refused}
    reasons = [_try(client, options_of(client, rest)) for client in ("consumer", "producer", "admin")]
    return next((why for why in reasons if why), None)
