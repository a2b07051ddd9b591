"""`samsarrow users`: who may log in with a password that the cluster keeps."""

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
from samsarrow.cli.connection import Connection, connected
from samsarrow.cli.output import (
    attempt,
    complain,
    confirm,
    dry_run_option,
    listed,
    output_option,
    settle,
    show,
    told,
    yes_option,
)
from samsarrow.config import Secret
from samsarrow.exceptions import KafkaError, ResourceNotFoundError

MECHANISMS = {m.mechanism_name: m for m in ScramMechanism if m is not ScramMechanism.UNKNOWN}
FOR_NEW_USERS = ScramMechanism.SCRAM_SHA_512


@click.group()
def users() -> None:
    """Look at and change users that log in by SCRAM (KIP-554).

    Passwords are salted and hashed here: the cluster never sees them. Changes need ALTER on the cluster, lists
    DESCRIBE.
    """


def _mechanisms(
    _context: click.Context, _parameter: click.Parameter, names: tuple[str, ...]
) -> tuple[ScramMechanism, ...]:
    return tuple(dict.fromkeys(MECHANISMS[name] for name in names))


def mechanism_option(text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`--mechanism`, repeatable."""
    kinds = click.Choice(list(MECHANISMS), case_sensitive=False)
    return click.option("--mechanism", "mechanisms", multiple=True, type=kinds, callback=_mechanisms, help=text)


Credentials = dict[str, tuple[ScramCredentialInfo, ...]]


def credentials_of(connection: Connection, names: Sequence[str]) -> tuple[Credentials, dict[str, KafkaError]]:
    """What users have, nothing for those that there are not; and whose could not be found out."""
    found: Credentials = {}
    errors: dict[str, KafkaError] = {}
    for user, one in told(connection.admin.describe_users(names or None)):
        if isinstance(one, ResourceNotFoundError):
            found[user] = ()
        elif isinstance(one, KafkaError):
            errors[f"user {user}"] = one
        else:
            found[user] = one
    return found, errors


@users.command("list")
@click.argument("names", nargs=-1, metavar="[USER]...")
@connected
@output_option
def list_users(connection: Connection, names: tuple[str, ...], form: str | None) -> None:
    """List users with their mechanisms, all or some."""
    found, errors = credentials_of(connection, names)
    for user in (user for user, credentials in found.items() if not credentials):
        click.echo(f"user {user} has no password here", err=True)
    rows = [(user, c.mechanism.mechanism_name, c.iterations) for user, of in found.items() for c in of]
    show(form, ("user", "mechanism", "iterations"), rows)
    complain(errors, len(found) + len(errors), "users")


def _password(user: str, from_stdin: bool, variable: str | None) -> Secret:
    """From where it shows to nobody.

    Raises:
        click.UsageError: it is nowhere, or in two places.
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
            raise click.UsageError("a password is one line: there are more on standard input")
    elif sys.stdin.isatty():
        password = click.prompt(f"Password for {user}", hide_input=True, confirmation_prompt=True, err=True)
    else:
        raise click.UsageError(
            "there is no terminal to ask for the password at: give it by --password-stdin or --password-env NAME"
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
    """Set a user's password, which is asked for on a terminal. A new user is made by it.

    It has no option: what is on a command line other users see.
    """
    password = _password(user, from_stdin, variable)
    found, errors = credentials_of(connection, [user])
    complain(errors, 1, "users")
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
    """Delete users' passwords, of all mechanisms or some. ACLs of the users stay.

    A user that has none is no error. Connections that are open stay so.
    """
    changes = []
    found, errors = credentials_of(connection, names)
    for user, credentials in found.items():
        going = [c.mechanism for c in credentials if c.mechanism in (mechanisms or MECHANISMS.values())]
        changes += [UserScramCredentialDeletion(user, mechanism) for mechanism in going]
        named = " and ".join(mechanism.mechanism_name for mechanism in going)
        click.echo(f"user {user}: {f'the password for {named} goes' if going else 'nothing to delete'}")
    if dry_run:
        click.echo("dry run: nothing is deleted")
        return
    outcomes: dict[str, KafkaError | None] = dict(errors)
    if going_users := list(dict.fromkeys(change.user for change in changes)):
        confirm(f"Deleting passwords of {listed(going_users)}", yes)
        done = attempt(going_users, lambda: connection.admin.alter_users(changes))
        outcomes |= {f"user {user}": error for user, error in done.items()}
    settle(outcomes.items(), "deleted")
