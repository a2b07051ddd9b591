"""Fixtures of all tests."""

import signal

pytest_plugins = ["support.fixtures"]

# Shells start background jobs with SIGINT ignored; processes that tests start and interrupt would inherit this.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
