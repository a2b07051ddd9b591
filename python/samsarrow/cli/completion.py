"""Shell completion: names of topics, groups, subjects, profiles and resources with settings."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class

from samsarrow.cli.commands import Command

if TYPE_CHECKING:
    from samsarrow import Admin
    from samsarrow.cli.connection import Connection

# Seconds for which names are cached, so that new topics are missing for this time; and maximum seconds to wait for the
# cluster.
FRESH_SECONDS = 60
LIMIT_SECONDS = 0.3
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def profiles(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Completes names of profiles."""
    from samsarrow.cli.settings import profile_names

    try:
        return [CompletionItem(name) for name in profile_names() if name.startswith(typed)]
    except click.ClickException:
        return []


def _completer(kind: str, list_names: Callable[[Connection], list[str]]) -> Completer:
    def complete(context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
        try:
            return [CompletionItem(name) for name in _names(context, kind, list_names) if name.startswith(typed)]
        except Exception:
            # Completion must not print errors; the command itself will report them.
            return []

    return complete


def _names(context: click.Context, kind: str, list_names: Callable[[Connection], list[str]]) -> list[str]:
    from samsarrow.cli.connection import Connection
    from samsarrow.cli.settings import REGISTRY, layered, properties_file

    given = dict(text.partition("=")[::2] for text in _several(context.params.get("given")))
    if servers := context.params.get("bootstrap_servers"):
        given["bootstrap.servers"] = servers
    if url := context.params.get("registry_url"):
        given[f"{REGISTRY}url"] = url
    given |= login if isinstance(login := context.params.get("registry_login"), dict) else {}
    named = context.params.get("from_file")
    from_file = named if isinstance(named, dict) else properties_file(Path(named)) if named else {}
    options = layered(context.params.get("profile"), from_file, given)
    # The name of the cache file is a hash of the options, because options may be secret.
    digest = hashlib.sha256(json.dumps([kind, sorted(options.items())]).encode()).hexdigest()[:32]
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    cache = Path(home) / "samsarrow" / f"{digest}.json"
    try:
        if 0 <= time.time() - cache.stat().st_mtime < FRESH_SECONDS:
            names: list[str] = json.loads(cache.read_text("utf-8"))
            return names
    except (OSError, ValueError):
        pass
    # Disables logging, because log lines about unreachable brokers would appear in the user's prompt.
    logging.disable(logging.CRITICAL)
    connection = Connection(options, LIMIT_SECONDS)
    try:
        names = sorted(list_names(connection))
    finally:
        connection.close()
    cache.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = cache.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(names), "utf-8")
    draft.replace(cache)
    return names


def _several(given: object) -> list[str]:
    """Returns the values of `-X` as texts; they are a mapping if click has already called the option's callback."""
    if isinstance(given, dict):
        return [f"{name}={value}" for name, value in given.items()]
    return [text for text in given if "=" in text] if isinstance(given, tuple | list) else []


def _client_metrics(admin: Admin) -> list[str]:
    from samsarrow.admin_types import ConfigResourceType

    resources = admin.list_config_resources([ConfigResourceType.CLIENT_METRICS], timeout=LIMIT_SECONDS)
    return [resource.name for resource in resources]


# Functions that list the names of resources with settings, by resource type on the command line.
_RESOURCES: dict[str, Callable[[Admin], list[str]]] = {
    "topic": lambda admin: [t.name for t in admin.list_topics(timeout=LIMIT_SECONDS).values()],
    "broker": lambda admin: [str(b.id) for b in admin.describe_cluster(timeout=LIMIT_SECONDS).brokers],
    "logger": lambda admin: [str(b.id) for b in admin.describe_cluster(timeout=LIMIT_SECONDS).brokers],
    "group": lambda admin: list(admin.list_groups(timeout=LIMIT_SECONDS)),
    "client-metrics": _client_metrics,
}


def _subjects(connection: Connection) -> list[str]:
    from samsarrow.cli.settings import REGISTRY

    milliseconds = str(round(LIMIT_SECONDS * 1000))
    limits = {"max.retries": "0", "http.connect.timeout.ms": milliseconds, "http.read.timeout.ms": milliseconds}
    connection.options.update({f"{REGISTRY}{name}": value for name, value in limits.items()})
    from samsarrow.cli import registry

    return registry.subjects(connection.registry)


topics = _completer("topics", lambda connection: _RESOURCES["topic"](connection.admin))
groups = _completer("groups", lambda connection: _RESOURCES["group"](connection.admin))
subjects = _completer("subjects", _subjects)


def resources(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Completes resources such as topic:orders: first the type, then names of resources of that type.

    In shells that split words at a colon, such as bash, only the name after the colon is completed.
    """
    earlier = context.params.get(parameter.name or "") or ()
    before = (earlier,) if isinstance(earlier, str) else tuple(earlier)
    if typed == ":" and before[-1:] and before[-1] in _RESOURCES:
        return _of_kind(before[-1], "", context, parameter, "")
    if before[-1:] == (":",) and before[-2:-1] and before[-2] in _RESOURCES:
        return _of_kind(before[-2], typed, context, parameter, "")
    kind, colon, name = typed.partition(":")
    matching = [resource_type for resource_type in _RESOURCES if resource_type.startswith(kind)]
    if colon or len(matching) == 1:
        full = kind if colon else matching[0]
        return _of_kind(full, name, context, parameter, f"{full}:") if full in _RESOURCES else []
    return [CompletionItem(f"{resource_type}:") for resource_type in matching]


def _of_kind(
    kind: str, typed: str, context: click.Context, parameter: click.Parameter, before: str
) -> list[CompletionItem]:
    items = _completer(f"{kind}s", lambda connection: _RESOURCES[kind](connection.admin))(context, parameter, typed)
    return [CompletionItem(f"{before}{item.value}") for item in items]


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Print the completion script of a shell, for its start file.

    \b
      eval "$(samsarrow completion bash)"      # in ~/.bashrc
      eval "$(samsarrow completion zsh)"       # in ~/.zshrc
      samsarrow completion fish | source       # in ~/.config/fish/config.fish
    """  # noqa: D301 - click needs the character
    from samsarrow.cli import cli

    found = get_completion_class(shell)
    if found is not None:
        click.echo(found(cli, {}, "samsarrow", "_SAMSARROW_COMPLETE").source())
