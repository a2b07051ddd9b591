"""Programs of examples/, imported as modules or run as processes that tests kill and restart."""

import contextlib
import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, TracebackType

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def module(path: str) -> ModuleType:
    """Imports an example as a module, for example `module("worker/worker.py")`."""
    name = "example_" + path.removesuffix(".py").replace("/", "_")
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def copied(path: str, folder: Path, *changes: tuple[str, str], first: str = "") -> Path:
    """Copies an example and changes it so that it is fast enough for tests.

    Args:
        path: path below examples/, such as `worker/worker.py`.
        folder: folder of the copy.
        *changes: pairs of a text and its replacement.
        first: code to run before the example.
    """
    code = (EXAMPLES / path).read_text()
    for old, new in changes:
        assert old in code, old
        code = code.replace(old, new)
    start = 'if __name__ == "__main__":\n'
    assert start in code
    script = folder / Path(path).name
    script.write_text(code.replace(start, f"{first}\n\n{start}"))
    return script


# Imports modules once, then forks a process for each line of input, a JSON list of script, arguments and log file.
# Prints the process id, and the exit code when the process has ended.
_STARTER = """
import importlib, json, os, runpy, sys, traceback
for name in sys.argv[1:]:
    importlib.import_module(name)
for line in sys.stdin:
    script, arguments, log = json.loads(line)
    process = os.fork()
    if not process:
        out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.dup2(out, 1)
        os.dup2(out, 2)
        sys.argv = [script, *arguments]
        sys.path[0] = os.path.dirname(script)
        try:
            runpy.run_path(script, run_name="__main__")
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(process, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""


class Program:
    """A running program with its output. It is killed at the end of the `with` block.

    Args:
        script: path of the script.
        *arguments: command line arguments.
        imports: modules that take long to import. The script is forked from a process that has imported them and
            has done nothing else.
    """

    def __init__(self, script: Path, *arguments: str, imports: Sequence[str] = ("samsarrow.consumer",)) -> None:
        self._script, self._arguments, self._imports = script, arguments, imports
        self._log = script.with_suffix(".out")
        self._starter: subprocess.Popen[bytes] | None = None
        self._process: int | None = None
        self._ended: int | None = None

    def __enter__(self) -> "Program":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            sys.stderr.write(self.output())
        self.close()

    def output(self) -> str:
        return self._log.read_text()

    def start(self) -> None:
        if self._starter is None:
            self._starter = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", _STARTER, *self._imports],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
            )  # fmt: skip
        assert self._starter.stdin is not None
        line = json.dumps([str(self._script), self._arguments, str(self._log)])
        self._starter.stdin.write(line.encode() + b"\n")
        self._process, self._ended = int(self._read_line()), None

    def _read_line(self) -> bytes:
        # The pipe is unbuffered, since bytes in a buffer would be lost.
        assert self._starter is not None
        assert self._starter.stdout is not None
        return self._starter.stdout.readline()

    def kill(self) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)
        self.wait()

    def close(self) -> None:
        """Kills the script and the process that starts it."""
        self.kill()
        assert self._starter is not None
        self._starter.communicate()

    def restart(self) -> None:
        self.kill()
        self.start()

    def _poll(self, seconds: float = 0) -> int | None:
        """Returns the exit code, or None while the script runs."""
        assert self._starter is not None
        if self._ended is None and select.select([self._starter.stdout], [], [], seconds)[0]:
            self._ended = int(self._read_line())
        return self._ended

    def wait(self, seconds: float = 60) -> int:
        """Waits for the script to end and returns its exit code."""
        ended = self._poll(seconds)
        assert ended is not None, f"it does not end:\n{self.output()}"
        return ended

    def until(self, done: Callable[[], bool], seconds: float = 60, pause: float = 0.01) -> None:
        """Waits until `done` returns true, checking every `pause` seconds."""
        deadline = time.monotonic() + seconds
        while not done():
            assert self._poll() is None, f"it ended by itself:\n{self.output()}"
            assert time.monotonic() < deadline, f"it does not come:\n{self.output()}"
            time.sleep(pause)
