"""Log line for sessions in which `samsarrow` is the Python source because Spark has not loaded the jar."""

from __future__ import annotations

import logging
import platform

from samsarrow.spark.jar_file import installed_jar, requirement

_log = logging.getLogger(__name__)
# Machines for which the jar has libraries.
_MACHINES = ("x86_64", "aarch64")
_notified = False


def notify() -> None:
    """Logs at INFO, once in each process, how to use the source in the JVM. Logs nothing where it cannot run."""
    global _notified
    if _notified or not _is_supported():
        return
    _notified = True
    if not _log.hasHandlers():
        # Spark configures no logging in its Python workers. Their standard error is that of the driver or executor.
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s samsarrow: %(message)s", "%y/%m/%d %H:%M:%S"))
        _log.addHandler(handler)
        _log.setLevel(logging.INFO)
    _log.info("%s", text())


def text() -> str:
    """Returns the log line."""
    return (
        f'format("samsarrow") is the Python source, because {remedy()}, for the faster source in the JVM; or use '
        'format("samsarrow-python"), which does not log this'
    )


def remedy() -> str:
    """Returns why Spark has not loaded the jar, and how it will."""
    installed = installed_jar()
    if installed is not None and installed.is_file():
        return f"this Spark has not loaded {installed}: set spark.jars to samsarrow.spark.jar() and start Spark again"
    return f"Spark has no samsarrow jar: pip install {requirement()} and start Spark again"


def _is_supported() -> bool:
    """Returns true if the jar has a library for this machine."""
    return platform.system() == "Linux" and platform.machine() in _MACHINES and platform.libc_ver()[0] == "glibc"
