"""A terminal in the alternate screen: keys, size and drawing, with termios and ANSI sequences."""

from __future__ import annotations

import codecs
import contextlib
import os
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from types import FrameType, TracebackType
from typing import Any

# Alternate screen, hidden cursor, no wrapping at the last column; and the opposite.
ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
LEAVE = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
STYLES = {"bold": "1", "dim": "2", "reverse": "7", "red": "31", "green": "32", "yellow": "33"}
COLORS = {"red", "green", "yellow"}
SEQUENCES = {
    "[A": "up", "OA": "up", "[B": "down", "OB": "down", "[C": "right", "OC": "right", "[D": "left", "OD": "left",
    "[H": "home", "OH": "home", "[1~": "home", "[7~": "home", "[F": "end", "OF": "end", "[4~": "end", "[8~": "end",
    "[5~": "pgup", "[6~": "pgdn", "[Z": "tab", "OM": "enter",
}  # fmt: skip
CONTROLS = {"\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "backspace", "\x08": "backspace", "\x15": "clear",
            "\x06": "pgdn", "\x02": "pgup", "\x0c": "redraw"}  # fmt: skip
# Seconds to wait for the rest of an escape sequence, so that a single Esc is recognized.
ESCAPE_SECONDS = 0.05


def interactive() -> bool:
    """True if a screen can be drawn: input and output are a terminal with cursor positioning."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM", "dumb") == "dumb":
        return False
    with contextlib.suppress(ImportError):
        import termios  # noqa: F401

        return True
    return False


class Keys:
    """Decoder of terminal input."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""

    @property
    def pending(self) -> bool:
        """True if the input may be the beginning of an escape sequence."""
        return bool(self._text)

    def feed(self, data: bytes) -> Iterator[str]:
        """Yields the keys of new input, except an incomplete escape sequence at its end."""
        self._text += self._decoder.decode(data)
        while self._text:
            if self._text[0] != "\x1b":
                key, self._text = self._text[0], self._text[1:]
                if key in CONTROLS or key.isprintable():
                    yield CONTROLS.get(key, key)
                continue
            end = _sequence_end(self._text)
            if end is None:
                return
            sequence, self._text = self._text[1:end], self._text[end:]
            if key := SEQUENCES.get(sequence, "" if sequence else "esc"):
                yield key

    def flush(self) -> Iterator[str]:
        """Yields `esc` for a single Esc, and discards other incomplete sequences."""
        single, self._text = self._text == "\x1b", ""
        if single:
            yield "esc"


def _sequence_end(text: str) -> int | None:
    """Returns the end of the escape sequence at the beginning; 1 for a single Esc, None if it is incomplete."""
    if len(text) < 2:
        return None
    if text[1] == "O":
        return 3 if len(text) > 2 else None
    if text[1] != "[":
        return 1
    # Parameters and intermediate characters of a control sequence precede a character from @ to ~ (ECMA-48).
    for at in range(2, len(text)):
        if "@" <= text[at] <= "~":
            return at + 1
        if not " " <= text[at] <= "?" or at > 32:
            return at
    return None


class Terminal:
    """The terminal of standard input and output, without echo and line buffering, as a context manager.

    The terminal is restored at the end of the block, and while the process is stopped with Ctrl-Z.
    """

    def __init__(self) -> None:
        self._input = sys.stdin.fileno()
        self._read, self._write = os.pipe()
        for end in (self._read, self._write):
            os.set_blocking(end, False)
        self._keys = Keys()
        self._before: list[Any] | None = None
        self._drawn: list[str] = []
        self._size = (0, 0)
        self._handlers: dict[int, Any] = {}
        self._colors = "NO_COLOR" not in os.environ
        self.closed = False

    def __enter__(self) -> Terminal:
        self._enter()
        for name, handler in (("SIGWINCH", self._resized), ("SIGTSTP", self._stopped)):
            number = getattr(signal, name)
            self._handlers[number] = signal.signal(number, handler)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._leave()

    def close(self) -> None:
        """Closes the pipe of `wake`. Must be called when no other thread calls `wake` any more."""
        os.close(self._read)
        os.close(self._write)

    def _enter(self) -> None:
        import termios
        import tty

        self._before = termios.tcgetattr(self._input)
        # Ctrl-C and Ctrl-Z still send signals.
        tty.setcbreak(self._input, termios.TCSADRAIN)
        self._put(ENTER)
        self._drawn = []

    def _leave(self) -> None:
        import termios

        if self._before is not None:
            before, self._before = self._before, None
            # Fails if the terminal was closed.
            with contextlib.suppress(OSError, ValueError):
                self._put(LEAVE)
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._input, termios.TCSADRAIN, before)

    def _resized(self, _number: int, _frame: FrameType | None) -> None:
        self.wake()

    def _stopped(self, number: int, _frame: FrameType | None) -> None:
        self._leave()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        # The process has continued.
        signal.signal(number, self._stopped)
        self._enter()
        self.wake()

    def wake(self) -> None:
        """Ends `keys`, from any thread or signal handler."""
        # If the pipe is full, the wait ends anyway.
        with contextlib.suppress(OSError):
            os.write(self._write, b"\0")

    def keys(self, timeout: float) -> list[str]:
        """Waits for keys.

        Args:
            timeout: seconds to wait.

        Returns:
            The keys; empty after the timeout and after `wake`. `closed` is set if the terminal is closed.
        """
        ready, _, _ = select.select([self._input, self._read], [], [], max(timeout, 0))
        if self._read in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._read, 4096)
        if self._input not in ready:
            return []
        keys = self._receive()
        while self._keys.pending:
            if select.select([self._input], [], [], ESCAPE_SECONDS)[0] and not self.closed:
                keys += self._receive()
            else:
                keys += self._keys.flush()
        return keys

    def _receive(self) -> list[str]:
        try:
            data = os.read(self._input, 1024)
        except OSError:
            data = b""
        self.closed = not data
        return list(self._keys.feed(data))

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines; 80 and 24 if the terminal does not report them."""
        try:
            columns, lines = os.get_terminal_size(sys.stdout.fileno())
        except OSError:
            columns, lines = 0, 0
        return columns or 80, lines or 24

    def redraw(self) -> None:
        """Draws all lines at the next `draw`, because other output may be on the screen."""
        self._drawn = []

    def draw(self, lines: Sequence[Sequence[tuple[str, str]]], size: tuple[int, int]) -> None:
        """Draws lines of styled texts. Only writes the lines that have changed.

        Args:
            lines: lines from the top, each as wide as the screen.
            size: size for which the lines were made.
        """
        texts = ["".join(self._styled(text, style) for text, style in line) for line in lines]
        clear = size != self._size or not self._drawn
        if clear:
            self._size, self._drawn = size, [""] * len(texts)
        output = "\x1b[2J" if clear else ""
        for at, text in enumerate(texts):
            if at >= len(self._drawn) or self._drawn[at] != text:
                output += f"\x1b[{at + 1};1H{text}"
        self._drawn = texts
        if output:
            self._put(output)

    def _styled(self, text: str, style: str) -> str:
        names = [name for name in style.split() if self._colors or name not in COLORS]
        codes = ";".join(STYLES[name] for name in names)
        return f"\x1b[{codes}m{text}\x1b[0m" if codes else text

    @staticmethod
    def _put(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
