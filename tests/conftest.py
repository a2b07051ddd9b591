"""Fixtures of all tests."""

import signal

pytest_plugins = ["support.fixtures"]

# A shell has what it runs in the background ignore SIGINT; programs that tests start and interrupt would inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
