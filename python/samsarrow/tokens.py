"""Token providers for OAUTHBEARER, which are values of the option `sasl.oauthbearer.token.provider`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from importlib import import_module
from typing import Any, Protocol

from samsarrow import _core
from samsarrow.exceptions import ConfigurationError, KafkaError

__all__ = ["TokenProvider"]

OPTION = "sasl.oauthbearer.token.provider"

Token = str | tuple[Any, ...]
"""See `TokenProvider`."""


class TokenProvider(Protocol):
    """Provider of a client's tokens: value of the option `sasl.oauthbearer.token.provider`, or of its alias `oauth_cb`.

    A provider is a function, sync or async, that returns the token as text, or a tuple that begins with the token:
    `(token, end)`, `(token, end, principal)` or `(token, end, principal, extensions)`. `end` is in seconds since 1970,
    or a `datetime` with a time zone; if it is missing, the end is read from the token if the token is a JWT; otherwise
    a token is requested at each login. `principal` is accepted and ignored; `extensions`, a mapping or pairs, are sent
    to brokers (KIP-342). A function that needs an argument, and any `oauth_cb`, receives the text of the option
    `sasl.oauthbearer.config`.

    A provider may also be an object with such a function as its method `token`, and optionally a method `extensions`,
    as in kafka-python and aiokafka. Or it is the name of a function, an object or a class, as
    `package.module:function`, which processes on other machines, such as Spark's executors, can import. If it is the
    name of a class, an instance of the class is created.

    The provider is called on a dedicated thread of the client (async functions run on an event loop there), never in
    `poll` or `send`. It is called before the first login, and again after a part of the token's lifetime
    (`sasl.login.refresh.*`). It may be slow: a login that waits for longer than 2 s fails, and a later login uses the
    token. An exception of the provider is the cause of the `AuthenticationError` that calls of the client then raise.
    Failures to connect (`OSError`, except for files and for responses of 400 to 499) and errors that are `retriable`
    are temporary: the login is retried. If a broker rejects the token, the client requests another.
    """

    def __call__(self) -> Token | Awaitable[Token]:
        """Returns a token that is currently valid."""
        ...


def describe(provider: Any) -> str:
    """Returns the name of a provider, for options and errors."""
    named = provider if hasattr(provider, "__qualname__") else type(provider)
    return f"{named.__module__}:{named.__qualname__}"


class Source:
    """Adapter of a provider for the Rust client, which calls the adapter on one thread, one call after another."""

    def __init__(self, option: Any, confluent: bool) -> None:
        provider = _load(option) if isinstance(option, str) else option
        method = getattr(provider, "token", None)
        if isinstance(provider, type):
            raise ConfigurationError(f"option {OPTION}: {describe(provider)} is a class: pass an instance of it")
        if callable(method):
            extensions = getattr(provider, "extensions", None)
            self._extensions: Callable[[], Any] | None = extensions if callable(extensions) else None
            self._provide: Callable[..., Any] = method
        elif callable(provider):
            self._extensions, self._provide = None, provider
        else:
            raise ConfigurationError(
                f"option {OPTION} must be a function, an object with a method token, or module:function, "
                f"not {type(provider).__name__}"
            )
        self._with_config = _takes_config(self._provide, confluent)
        self._runner: asyncio.Runner | None = None

    def answer(self, config: str, reply: _core.TokenReply) -> None:
        """Requests a token, and passes the token or an error to the Rust client."""
        try:
            token, end, extensions = _parts(self._wait(self._provide(config) if self._with_config else self._provide()))
            if self._extensions is not None:
                extensions = [*_pairs(self._wait(self._extensions())), *extensions]
        except BaseException as error:
            reply.fail(error, f"it raised {type(error).__name__}: {error}", _is_retriable(error))
        else:
            reply.give(token, end, extensions)

    def close(self) -> None:
        """Closes the event loop on which async providers run."""
        if self._runner is not None:
            self._runner.close()

    def _wait(self, result: Any) -> Any:
        if not inspect.isawaitable(result):
            return result
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(_await(result))


async def _await(result: Awaitable[Any]) -> Any:
    return await result


def _load(name: str) -> Any:
    module, _, path = name.partition(":")
    if not module or not path:
        raise ConfigurationError(f"option {OPTION} must be module:function, as app.tokens:fetch, not {name!r}")
    try:
        provider = import_module(module)
        for part in path.split("."):
            provider = getattr(provider, part)
        return provider() if isinstance(provider, type) else provider
    except Exception as error:
        raise ConfigurationError(f"option {OPTION}: {name} cannot be imported: {error}") from error


def _takes_config(provide: Callable[..., Any], confluent: bool) -> bool:
    """Returns whether a provider takes the configuration as its argument.

    Raises:
        ConfigurationError: the provider cannot be called with one argument or without arguments.
    """
    try:
        signature = inspect.signature(provide)
    except (TypeError, ValueError):
        return confluent
    for arguments in (("",), ()) if confluent else ((), ("",)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return bool(arguments)
    raise ConfigurationError(f"option {OPTION}: {describe(provide)} takes more than one argument: {signature}")


def _parts(token: Any) -> tuple[str, float | None, list[tuple[str, str]]]:
    if isinstance(token, str):
        return token, None, []
    if not isinstance(token, tuple | list) or not 2 <= len(token) <= 4 or not isinstance(token[0], str):
        kind = type(token).__name__
        raise TypeError(f"a token is text or (text, end in seconds since 1970, principal, extensions), not {kind}")
    _, end, *rest = token
    extensions = rest[1] if len(rest) == 2 else None
    return token[0], _seconds(end), [] if extensions is None else _pairs(extensions)


def _seconds(end: Any) -> float | None:
    if end is None:
        return None
    if isinstance(end, datetime):
        if end.tzinfo is None:
            raise TypeError("a token's end needs a time zone: datetime.now(timezone.utc) has one")
        return end.timestamp()
    if isinstance(end, bool) or not isinstance(end, int | float):
        raise TypeError(f"a token's end is a number of seconds since 1970 or a datetime, not {type(end).__name__}")
    return float(end)


def _pairs(extensions: Mapping[str, str] | Iterable[tuple[str, str]] | None) -> list[tuple[str, str]]:
    items = extensions.items() if isinstance(extensions, Mapping) else extensions or ()
    pairs = []
    for name, value in items:
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError("extensions of a token are pairs of text")
        pairs.append((str(name), value))
    return pairs


def _is_retriable(error: BaseException) -> bool:
    """Returns whether an error is temporary, because the network or a server caused it and not the request."""
    if isinstance(error, KafkaError):
        return error.retriable
    # HTTP errors from `urllib` and `requests` are also `OSError`s.
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", getattr(error, "code", None))
    if isinstance(status, int) and 400 <= status < 500:
        return False
    file_errors = FileNotFoundError | PermissionError | IsADirectoryError | NotADirectoryError
    return isinstance(error, OSError) and not isinstance(error, file_errors)
