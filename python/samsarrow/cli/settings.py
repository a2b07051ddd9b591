"""Sources of settings: the command line, a properties file, a profile, the environment."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from samsarrow.exceptions import ConfigurationError

PREFIX = "SAMSARROW_"
# Prefix of the options of the schema registry client.
REGISTRY = "schema.registry."
_REGISTRY_SECRETS = ("basic.auth.user.info", "bearer.auth.token")
_REGISTRY_PLAIN = (
    "url", "context", "max.retries", "retries.wait.ms", "retries.max.wait.ms", "http.connect.timeout.ms",
    "http.read.timeout.ms", "missing.id.retries.wait.ms", "missing.id.cache.ttl.sec", "aws.profile", "aws.role.arn",
    "aws.endpoint.url", "aws.compatibility",
)  # fmt: skip
_COMMAND = ".command"
_COMMAND_SECONDS = 60


class SettingsError(click.UsageError):
    """A profile or a settings file is invalid."""


def config_file() -> Path:
    """Returns `$SAMSARROW_CONFIG`, or `samsarrow/config.toml` in the user's configuration folder."""
    if path := os.environ.get("SAMSARROW_CONFIG"):
        return Path(path)
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "samsarrow" / "config.toml"


def properties_file(path: Path) -> dict[str, str]:
    """Reads options from a properties file, in the format of Kafka's own tools.

    Raises:
        SettingsError: the file cannot be read, or is not a properties file.
    """
    from samsarrow._core import properties

    try:
        return dict(properties(path.read_text("utf-8")))
    except (ConfigurationError, UnicodeDecodeError) as error:
        # The text of a UnicodeDecodeError is not used, because it has bytes of the file, which may be secret.
        why = str(error) if isinstance(error, ConfigurationError) else "it is not UTF-8"
        raise SettingsError(f"{click.format_filename(path)} is not a properties file: {why}") from None
    except OSError as error:
        raise SettingsError(f"{click.format_filename(path)} cannot be read: {error.strerror}") from None


def kind_of(name: str) -> str:
    """Returns the kind of an option of a client or of the schema registry: `secret`, `path`, `plain` or `unknown`."""
    from samsarrow import config

    dotted = name.replace("_", ".")
    own = dotted.removeprefix(REGISTRY)
    if own == dotted or own.startswith(("ssl.", "enable.ssl.")):
        return config.kind_of(own)
    return "secret" if own in _REGISTRY_SECRETS else "plain" if own in _REGISTRY_PLAIN else "unknown"


def _profiles(path: Path) -> tuple[dict[str, Any], str | None]:
    """Returns the profiles of a file, and the name of its default profile."""
    try:
        whole = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}, None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not TOML: it is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not TOML: {error}") from None
    found = whole.pop("profiles", {})
    default = whole.pop("default_profile", None)
    if whole:
        raise SettingsError(f"{path} has {next(iter(whole))!r}: it takes default_profile and [profiles.NAME]")
    if not isinstance(found, dict) or not all(isinstance(profile, dict) for profile in found.values()):
        raise SettingsError(f"{path}: profiles are tables, [profiles.NAME]")
    if default is not None and not isinstance(default, str):
        raise SettingsError(f"{path}: default_profile is the name of a profile")
    return found, default


def profile_names() -> list[str]:
    """Returns the names of all profiles, for completion."""
    return sorted(_profiles(config_file())[0])


def profile(name: str | None) -> dict[str, str]:
    """Returns the options of a profile, by default of `SAMSARROW_PROFILE` or of the `default_profile` in the file.

    Runs the commands in the profile that print secrets, even if another source overrides the option.

    Raises:
        SettingsError: the profile does not exist, or is invalid.
    """
    path = config_file()
    profiles, default = _profiles(path)
    selected = name or os.environ.get("SAMSARROW_PROFILE") or default
    if selected is None:
        return {}
    if selected not in profiles:
        existing = f"it has {', '.join(sorted(profiles))}" if profiles else "it has none"
        missing = "" if path.exists() else ", which does not exist"
        raise SettingsError(
            f"there is no profile {selected!r} in {path}{missing or f': {existing}'}; a profile is a table "
            f"[profiles.{selected}] with options such as bootstrap_servers"
        )
    options = _flat(profiles[selected], f"profile {selected!r} in {path}")
    _check_mode(path, options)
    return _with_secrets(options, f"profile {selected!r}")


def _flat(table: Mapping[str, Any], where: str, before: str = "") -> dict[str, Any]:
    """Flattens nested TOML tables, which TOML creates from dotted option names."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = before + key.replace("_", ".")
        if isinstance(value, dict):
            found.update(_flat(value, where, f"{name}."))
        elif isinstance(value, bool):
            found[name] = "true" if value else "false"
        elif isinstance(value, str | int | float):
            found[name] = str(value)
        elif isinstance(value, list) and all(isinstance(item, str) for item in value):
            found[name] = value if name.endswith(_COMMAND) else ",".join(value)
        else:
            raise SettingsError(f"{where}: {name} must be text, a number, true or false, or a list of texts")
    return found


def _check_mode(path: Path, options: Mapping[str, Any]) -> None:
    """Prints a warning if other users can read a file with secrets."""
    secrets = [n for n, v in options.items() if kind_of(n) == "secret" and not str(v).startswith("${")]
    if secrets and os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        click.echo(f"{path} holds {secrets[0]} and others can read it: chmod 600, or use password_command", err=True)


def _with_secrets(options: dict[str, Any], where: str) -> dict[str, str]:
    """Runs the commands that print secrets, such as `password_command`, which sets `sasl.password`."""
    found = {name: value for name, value in options.items() if not name.endswith(_COMMAND)}
    for name in options.keys() - found.keys():
        secret = name.removesuffix(_COMMAND)
        secret = "sasl.password" if secret == "password" else secret  # noqa: S105 - the name of an option
        if kind_of(secret) != "secret":
            raise SettingsError(f"{where}: {name} stands for {secret}, which is not a secret option")
        if secret in found:
            raise SettingsError(f"{where} gives {secret} and {name}: one of them")
        found[secret] = _run(options[name], f"{where}: {name}")
    return found


def _run(command: str | list[str], where: str) -> str:
    """Runs a command without a shell, and returns the first line of its output."""
    try:
        words = shlex.split(command) if isinstance(command, str) else command
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from None
    if not words:
        raise SettingsError(f"{where} is empty")
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, timeout=_COMMAND_SECONDS, check=False)
    except OSError as error:
        raise SettingsError(f"{where}: {words[0]} cannot be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise SettingsError(f"{where}: {words[0]} took longer than {_COMMAND_SECONDS} s") from None
    # Errors do not contain the output of the command, because it may contain the secret.
    if done.returncode:
        raise SettingsError(f"{where}: {words[0]} ended with exit code {done.returncode}")
    try:
        line = done.stdout.decode().split("\n", 1)[0].removesuffix("\r")
    except UnicodeDecodeError:
        raise SettingsError(f"{where}: {words[0]} printed text that is not UTF-8") from None
    if not line:
        raise SettingsError(f"{where}: {words[0]} printed nothing")
    return line


def environment() -> dict[str, str]:
    """Returns options from variables such as `SAMSARROW_BOOTSTRAP_SERVERS`; ignores variables that name no option."""
    found = {}
    for name, value in os.environ.items():
        if name.startswith(PREFIX) and value:
            option = name.removeprefix(PREFIX).lower().replace("_", ".")
            if _known(option):
                found[option] = value
    return found


def _known(option: str) -> bool:
    # The names are checked first, so that the extension module with the table of options is loaded only if necessary.
    return option not in ("profile", "config") and kind_of(option) != "unknown"


def layered(named_profile: str | None, from_file: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Merges all sources of options. The keys of the result are Kafka's names.

    Precedence: the command line, the file of `-F`, the environment, the profile. A profile that is selected on the
    command line replaces the environment, which may be for another cluster.
    """
    from samsarrow.config import kafka_name

    layers = [profile(named_profile), {} if named_profile else environment(), from_file, given]
    return {kafka_name(name): value for layer in layers for name, value in layer.items()}
