"""`make wheels`: audits each wheel in dist/, and tests each wheel that this machine can run.

    python tests/wheels dist FOLDER [--source]

FOLDER has auditwheel and abi3audit; `--source` tests the source distribution instead.

Prints a line for each: size, platform, the environments tested, and the number of checks.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from wheels import audit, environments
from wheels.audit import WheelError


def main() -> int:
    """Checks all wheels; returns 1 if any is invalid."""
    dist = Path(sys.argv[1])
    tools = Path(sys.argv[2]).absolute()
    if "--source" in sys.argv:
        source = dist / f"samsarrow-{audit.version()}.tar.gz"
        print(f"{source.name}: {environments.in_virtual_environment(source)}")
        return 0
    result = sorted(dist.glob(f"samsarrow-{audit.version()}-*.whl"))
    if not result:
        raise SystemExit(f"wheels: no wheel of {audit.version()} in {dist}: `make wheel`")
    bad = 0
    for wheel in result:
        started = time.monotonic()
        size = f"{wheel.stat().st_size / 1_000_000:.2f} MB"
        try:
            platform = audit.check(wheel, tools)
            tested = "; ".join(environments.results(wheel, platform)) or "built, not imported: no such machine here"
        except (WheelError, subprocess.CalledProcessError) as error:
            bad += 1
            print(f"{wheel.name}: {size}, NOT as it should be: {error}", flush=True)
            continue
        if wheel.stat().st_size > audit.LARGEST:
            # Only counts a wheel that is too large, because the wheel may still work.
            bad += 1
            size += f", NOT at most {audit.LARGEST // 1_000_000}"
        print(f"{wheel.name}: {size}, {platform}; {tested} ({time.monotonic() - started:.0f} s)", flush=True)
    return 1 if bad else 0


sys.exit(main())
