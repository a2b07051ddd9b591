"""A program in a pseudo-terminal, and the screen that it draws."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Sequence
from types import TracebackType

# Control sequences: cursor position, erase, modes and styles.
SEQUENCE = re.compile(r"\x1b\[(\??)([\d;]*)([A-Za-z])")


class Screen:
    """A program in a pseudo-terminal of a size, as a context manager that kills the program at its end.

    Only interprets the sequences that `samsarrow top` writes. Fails at others.
    """

    def __init__(self, command: Sequence[str], columns: int = 80, lines: int = 24, **environment: str) -> None:
        self._master, self._slave = pty.openpty()
        self.resize(columns, lines)
        self.before = termios.tcgetattr(self._slave)
        self.modes: set[str] = set()
        self.output = ""
        self.process = subprocess.Popen(
            command,
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            env={**os.environ, "TERM": "xterm", "PYTHONUTF8": "1", **environment},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def __enter__(self) -> "Screen":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)
        os.close(self._slave)

    def resize(self, columns: int, lines: int) -> None:
        """Changes the size of the terminal; the kernel notifies the program."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.columns, self.rows = columns, lines
        self.lines = [" " * columns for _ in range(lines)]

    def press(self, keys: str) -> None:
        """Types keys."""
        os.write(self._master, keys.encode())

    def read(self, seconds: float = 0.1) -> None:
        """Reads output for a limited time, and applies it to the screen."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([self._master], [], [], left)[0]:
                return
            self.output += os.read(self._master, 65536).decode("utf-8", "replace")
        self._apply()

    def wait(self, seen: Callable[[list[str]], bool], seconds: float = 20) -> list[str]:
        """Waits until the lines of the screen satisfy a condition, and returns them."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.read()
            self._apply()
            if seen(self.lines):
                return self.lines
        raise AssertionError("not on the screen:\n" + "\n".join(self.lines))

    def wait_for(self, text: str, seconds: float = 20) -> list[str]:
        """Waits until a text is on the screen, and returns the lines."""
        return self.wait(lambda lines: any(text in line for line in lines), seconds)

    def end(self, seconds: float = 20) -> int:
        """Waits for the end of the program, and returns its exit code."""
        code = self.process.wait(seconds)
        self.read()
        self._apply()
        return code

    def kill(self, number: signal.Signals) -> None:
        """Sends a signal to the program."""
        self.process.send_signal(number)

    @property
    def restored(self) -> bool:
        """True if the terminal has its attributes from before, the main screen and a cursor."""
        return termios.tcgetattr(self._slave) == self.before and not self.modes & {"1049", "-25", "-7"}

    def _apply(self) -> None:
        """Applies the output up to an incomplete sequence."""
        at, row, column = 0, 0, 0
        text = self.output
        while at < len(text):
            if text[at] == "\x1b":
                found = SEQUENCE.match(text, at)
                if found is None:
                    assert len(text) - at < 20, repr(text[at : at + 20])
                    break
                private, numbers, final = found.groups()
                if private:
                    self._mode(numbers, final)
                elif final == "H":
                    row, column = (int(number) - 1 for number in numbers.split(";"))
                elif final == "J":
                    self.lines = [" " * self.columns for _ in range(self.rows)]
                else:
                    assert final == "m", found[0]
                at = found.end()
                continue
            if text[at] not in "\r\n" and row < len(self.lines):
                line = self.lines[row]
                self.lines[row] = line[:column] + text[at] + line[column + 1 :]
                column += 1
            at += 1
        self.output = text[at:]

    def _mode(self, number: str, final: str) -> None:
        """Records a mode: 1049 if it is on, -25 if the mode 25, which is on at first, is off."""
        name = number if number == "1049" else f"-{number}"
        on = (final == "h") == (number == "1049")
        self.modes = self.modes | {name} if on else self.modes - {name}
