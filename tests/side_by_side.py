"""Runs all Python tests in four processes, since they mostly wait for brokers and sessions.

    python tests/side_by_side.py [--rust] [options of pytest]

The first process prints while it runs; the others print when they are done. With `--rust`, the Rust tests run
concurrently. Fails if any of them fails.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
# Three groups: tests of Kafka brokers; tests of Spark sessions; tests of other Kafka versions, clusters and kills. The
# remaining tests use brokers and sessions only briefly, except one test that uses a cluster.
APART = (
    ["conservation", "interop", "kafka"],
    ["spark"],
    ["foreign", "matrix", "network", "security", "spark/test_kills.py"],
)
WITH_THE_REST = ["kafka/test_replicas.py"]


def main() -> int:
    options = [option for option in sys.argv[1:] if option != "--rust"]
    folders = [path for path in sorted(HERE.iterdir()) if any(path.rglob("test_*.py"))]
    groups = [[HERE / name for name in names] for names in APART]
    named = [path for group in groups for path in group]
    rest = [HERE / name for name in WITH_THE_REST]
    groups.append([path for path in folders if path not in named] + rest)
    named += rest
    # A file listed here runs only in its own group, not in the group of its folder.
    files = [path for path in named if path.is_file()]
    groups = [[*group, *(f"--ignore={path}" for path in files if path not in group)] for group in groups]
    pytest = [sys.executable, "-m", "pytest", "--durations", "12", *options]
    # Concurrent processes would overwrite each other's cache.
    commands = [[*pytest, "-p", "no:cacheprovider", *map(str, group)] for group in groups[1:]]
    # Tests of Spark take longest, and Spark gives its workers ten seconds to start.
    behind = ["nice", "-n", "5"]
    commands[1:] = [[*behind, *command] for command in commands[1:]]
    if "--rust" in sys.argv:
        commands.append([*behind, "make", "--no-print-directory", "test-rust"])
    others = [Kept(command) for command in commands]
    try:
        codes = [subprocess.run([*behind, *pytest, *map(str, groups[0])], check=False).returncode]
        codes += [other.finish() for other in others]
    finally:
        for other in others:
            other.end()
    return max(codes, key=abs)


class Kept:
    """A process whose output is collected until it ends."""

    def __init__(self, command: list[str]) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(command, stdout=self._output, stderr=self._output)

    def finish(self) -> int:
        """Waits for the process and prints its output."""
        code = self._process.wait()
        self._output.seek(0)
        sys.stdout.flush()
        sys.stdout.buffer.write(self._output.read())
        sys.stdout.flush()
        return code

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._output.close()


if __name__ == "__main__":
    sys.exit(main())
