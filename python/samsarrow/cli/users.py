"""`samsarrow users`: users with SCRAM credentials."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

import click

from samsarrow.access import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from samsarrow.cli.commands import CommandGroup
from samsarrow.cli.connection import Connection, connected
from samsarrow.cli.output import (
    confirm,
    dry_run_option,
    each_result,
    listed,
    no_rows,
    output_option,
    print_outcomes,
    report_errors,
    run_batch,
    show,
    yes_option,
)
from samsarrow.config import Secret
from samsarrow.exceptions import KafkaError, ResourceNotFoundError

MECHANISMS = {m.mechanism_name: m for m in ScramMechanism if m is not ScramMechanism.UNKNOWN}
FOR_NEW_USERS = ScramMechanism.SCRAM_SHA_512


@click.group(cls=CommandGroup)
def users() -> None:
    """Show and change users that log in with SCRAM (KIP-554).

    Passwords are salted and hashed locally, so the cluster never gets them. Changing users needs the permission ALTER
    on the cluster, listing them needs DESCRIBE.
    """


def _mechanisms(
    _context: click.Context, _parameter: click.Parameter, names: tuple[str, ...]
) -> tuple[ScramMechanism, ...]:
    return tuple(dict.fromkeys(MECHANISMS[name] for name in names))


def mechanism_option(text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Returns the repeatable option `--mechanism`."""
    kinds = click.Choice(list(MECHANISMS), case_sensitive=False)
    return click.option("--mechanism", "mechanisms", multiple=True, type=kinds, callback=_mechanisms, help=text)


Credentials = dict[str, tuple[ScramCredentialInfo, ...]]


def credentials_of(connection: Connection, names: Sequence[str]) -> tuple[Credentials, dict[str, KafkaError]]:
    """Returns the credentials by user, empty for unknown users, and the errors by user."""
    found: Credentials = {}
    errors: dict[str, KafkaError] = {}
    for user, credentials in each_result(connection.admin.describe_users(names or None)):
        if isinstance(credentials, ResourceNotFoundError):
            found[user] = ()
        elif isinstance(credentials, KafkaError):
            errors[f"user {user}"] = credentials
        else:
            found[user] = credentials
    return found, errors


@users.command("list")
@click.argument("names", nargs=-1, metavar="[USER]...")
@connected
@output_option
def list_users(connection: Connection, names: tuple[str, ...], form: str | None) -> None:
    """List all or some users with their mechanisms."""
    found, errors = credentials_of(connection, names)
    for user in (user for user, credentials in found.items() if not credentials):
        click.echo(f"user {user} has no password here", err=True)
    rows = [(user, c.mechanism.mechanism_name, c.iterations) for user, own in found.items() for c in own]
    show(form, ("user", "mechanism", "iterations"), rows, "" if names or errors else no_rows("users"))
    report_errors(errors, len(found) + len(errors), "users")


def _password(user: str, from_stdin: bool, variable: str | None) -> Secret:
    """Reads a password from a source that other users cannot see.

    Raises:
        click.UsageError: no password source is available, or two are given.
    """
    if from_stdin and variable is not None:
        raise click.UsageError("give --password-stdin or --password-env, not both")
    if variable is not None:
        if variable not in os.environ:
            raise click.UsageError(f"there is no environment variable {variable}")
        password = os.environ[variable]
    elif from_stdin:
        password = sys.stdin.readline().removesuffix("\n").removesuffix("\r")
        if sys.stdin.readline():
            raise click.UsageError("standard input has more than one line: pass the password as a single line")
    elif sys.stdin.isatty():
        password = click.prompt(f"Password for {user}", hide_input=True, confirmation_prompt=True, err=True)
    else:
        raise click.UsageError(
            "there is no terminal to read the password from: pass --password-stdin or --password-env NAME"
        )
    if not password:
        raise click.UsageError("the password is empty")
    return Secret(password)


@users.command("set")
@click.argument("user")
@connected
@mechanism_option("Repeatable; by default those that the user has, or SCRAM-SHA-512 for a new one.")
@click.option(
    "--iterations", type=click.IntRange(4096, 16384), default=4096, show_default=True,
    help="The number of hash iterations.",
)  # fmt: skip
@click.option("--password-stdin", "from_stdin", is_flag=True, help="Take the password from standard input, one line.")
@click.option("--password-env", "variable", metavar="NAME", help="Take the password from an environment variable.")
def set_password(
    connection: Connection,
    user: str,
    mechanisms: tuple[ScramMechanism, ...],
    iterations: int,
    from_stdin: bool,
    variable: str | None,
) -> None:
    """Set a user's password, which is prompted for on a terminal. An unknown user is created.

    The password is not an option, since other users can see command lines.
    """
    password = _password(user, from_stdin, variable)
    found, errors = credentials_of(connection, [user])
    report_errors(errors, 1, "users")
    had = [credential.mechanism for credential in found[user]]
    chosen = mechanisms or tuple(m for m in had if m is not ScramMechanism.UNKNOWN) or (FOR_NEW_USERS,)
    changes = [UserScramCredentialUpsertion(user, mechanism, password, iterations) for mechanism in chosen]
    connection.admin.alter_users(changes)
    named = " and ".join(mechanism.mechanism_name for mechanism in chosen)
    click.echo(f"user {user}: password {'changed' if had else 'set'} for {named}")
    for other in (mechanism for mechanism in had if mechanism not in chosen):
        click.echo(f"user {user}: {other.mechanism_name} keeps the password that it had", err=True)


@users.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="USER...")
@connected
@mechanism_option("Only this mechanism's password; repeatable.")
@yes_option
@dry_run_option
def delete(
    connection: Connection, names: tuple[str, ...], mechanisms: tuple[ScramMechanism, ...], yes: bool, dry_run: bool
) -> None:
    """Delete users' passwords for all or some mechanisms. ACLs of the users are kept.

    Users without a password cause no error. Open connections stay open.
    """
    changes = []
    found, errors = credentials_of(connection, names)
    for user, credentials in found.items():
        deleted = [c.mechanism for c in credentials if c.mechanism in (mechanisms or MECHANISMS.values())]
        changes += [UserScramCredentialDeletion(user, mechanism) for mechanism in deleted]
        named = " and ".join(mechanism.mechanism_name for mechanism in deleted)
        click.echo(f"user {user}: {f'the password for {named} goes' if deleted else 'nothing to delete'}")
    if dry_run:
        click.echo("dry run: nothing is deleted")
        return
    outcomes: dict[str, KafkaError | None] = dict(errors)
    if users := list(dict.fromkeys(change.user for change in changes)):
        confirm(f"Deleting passwords of {listed(users)}", yes)
        done = run_batch(users, lambda: connection.admin.alter_users(changes))
        outcomes |= {f"user {user}": error for user, error in done.items()}
    print_outcomes(outcomes.items(), "deleted")
