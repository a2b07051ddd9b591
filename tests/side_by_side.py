"""All tests of Python, in two processes: they wait for brokers and sessions for most of their time.

    python tests/side_by_side.py [options of pytest]

The one half writes as it goes, the other when both are done. Fails when either does.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
# About as long as all the rest together.
ONE_HALF = {"interop", "kafka", "matrix", "network", "security"}


def main() -> int:
    folders = [path for path in sorted(HERE.iterdir()) if any(path.rglob("test_*.py"))]
    halves = [[path for path in folders if (path.name in ONE_HALF) is chosen] for chosen in (True, False)]
    pytest = [sys.executable, "-m", "pytest", *sys.argv[1:]]
    with tempfile.TemporaryFile() as kept:
        # Of two that write one cache the last would win.
        other = subprocess.Popen([*pytest, "-p", "no:cacheprovider", *halves[1]], stdout=kept, stderr=kept)
        try:
            codes = [subprocess.run([*pytest, *halves[0]], check=False).returncode, other.wait()]
        finally:
            other.kill()
            other.wait()
            kept.seek(0)
            sys.stdout.flush()
            sys.stdout.buffer.write(kept.read())
    return max(codes, key=abs)


if __name__ == "__main__":
    sys.exit(main())
