"""`make wheels`: each wheel in dist/ is what it says, and is imported and tried where that can be done here.

    python tests/wheels dist FOLDER [--source]

FOLDER has auditwheel and abi3audit; `--source` is for the source distribution instead.

A line for each: size, platform, where it was tried, with how many checks.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from wheels import audit, places
from wheels.audit import WheelError


def main() -> int:
    """Looks at all of them; 1 where one is not as it should be."""
    dist = Path(sys.argv[1])
    tools = Path(sys.argv[2]).absolute()
    if "--source" in sys.argv:
        source = dist / f"samsarrow-{audit.version()}.tar.gz"
        print(f"{source.name}: {places.in_an_environment(source)}")
        return 0
    found = sorted(dist.glob(f"samsarrow-{audit.version()}-*.whl"))
    if not found:
        raise SystemExit(f"wheels: no wheel of {audit.version()} in {dist}: `make wheel`")
    bad = 0
    for wheel in found:
        started = time.monotonic()
        size = f"{wheel.stat().st_size / 1_000_000:.2f} MB"
        try:
            platform = audit.whole(wheel, tools)
            tried = "; ".join(places.tried(wheel, platform)) or "built, not imported: no such machine here"
        except (WheelError, subprocess.CalledProcessError) as error:
            bad += 1
            print(f"{wheel.name}: {size}, NOT as it should be: {error}", flush=True)
            continue
        if wheel.stat().st_size > audit.LARGEST:
            # Said after all else: a wheel that is too large may still be a good one.
            bad += 1
            size += f", NOT at most {audit.LARGEST // 1_000_000}"
        print(f"{wheel.name}: {size}, {platform}; {tried} ({time.monotonic() - started:.0f} s)", flush=True)
    return 1 if bad else 0


sys.exit(main())
