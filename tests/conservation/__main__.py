"""`make test-conservation`: runs each interface under each disturbance repeatedly; checks three sums after each run."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import random
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conservation.clusters import clusters
from conservation.run import Pair, Result, pairs, run
from conservation.spark import stop
from support.kafka import KafkaServer


def main() -> int:
    """Runs the pairs one after the other, repeatedly, until the time limit, and prints the results."""
    options = arguments()
    # Runs are expected to log errors of the clients under test.
    logger = logging.getLogger("samsarrow")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    with contextlib.ExitStack() as stack:
        bootstrap = options.bootstrap
        if bootstrap is None and not options.embedded:
            bootstrap = stack.enter_context(KafkaServer()).bootstrap_servers
        made = stack.enter_context(clusters(bootstrap))
        stack.callback(stop)
        selected, reasons = pairs(made, quick=options.quick)
        named = {pair: f"{pair.name} on {pair.cluster.name}" for pair in selected}
        selected = [pair for pair, name in named.items() if all(text in name for text in options.only)]
        if options.pair:
            selected = [pair for pair in selected if any(named[pair].startswith(text) for text in options.pair)]
        number, parts = options.part
        selected = selected[number - 1 :: parts]
        results = list[Result]()
        deadline, seed = time.monotonic() + options.seconds, options.seed
        while time.monotonic() < deadline:
            # The order depends on the seed, so that sessions too short for all pairs cover different pairs.
            order = random.Random(seed).sample(selected, len(selected))
            for pair in order:
                if time.monotonic() >= deadline:
                    break
                result = run(pair, seed, quick=options.quick)
                results.append(result)
                if result.violations:
                    print(result, flush=True)
                elif options.verbose:
                    print(f"{pair.name} on {pair.cluster.name}: {result.rows} rows, {result.seconds:.1f} s", flush=True)
            if options.once:
                break
            seed += 1
    table(selected, results, reasons)
    if options.json:
        options.json.write_text(json.dumps([[item.pair.name, str(item), item.violations] for item in results]))
    violations = sum(bool(result.violations) for result in results)
    print(f"{len(results)} runs, {sum(item.rows for item in results):,} rows, {violations} with violations")
    return 1 if violations or not results else 0


def table(wanted: list[Pair], results: list[Result], reasons: dict[tuple[str, str], str]) -> None:
    """Prints a line for each pair."""
    runs, rows, bad = Counter[str](), Counter[str](), Counter[str]()
    for result in results:
        name = result.pair.name
        runs[name] += 1
        rows[name] += result.rows
        bad[name] += bool(result.violations)
    width = max((len(pair.name) for pair in wanted), default=20)
    print(f"{'interface × disturbance':<{width}} {'runs':>6} {'rows':>12} {'violations':>10}")
    for name in dict.fromkeys(pair.name for pair in wanted):
        print(f"{name:<{width}} {runs[name]:>6} {rows[name]:>12,} {bad[name]:>10}")
    print("not run:")
    why: dict[str, list[str]] = {}
    for (interface, disturbance), reason in reasons.items():
        why.setdefault(f"{disturbance}: {reason}", []).append(interface)
    for reason, interfaces in why.items():
        print(f"  {reason}: {', '.join(interfaces)}")


def part(text: str) -> tuple[int, int]:
    """Reads N/M."""
    number, _, parts = text.partition("/")
    return int(number), int(parts)


def arguments() -> argparse.Namespace:
    """Returns the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bootstrap", help="a Kafka of one node on 127.0.0.1; by default one is started")
    parser.add_argument("--embedded", action="store_true", help="the embedded broker only")
    parser.add_argument("--once", action="store_true", help="each pair once")
    parser.add_argument("--verbose", action="store_true", help="a line for each run")
    parser.add_argument("--part", type=part, default=(1, 1), metavar="N/M", help="one of M equal parts of all pairs")
    parser.add_argument("--json", type=Path, help="a file for the pairs that were run, with their violations")
    parser.add_argument("--quick", action="store_true", help="fewer rows, and shorter")
    parser.add_argument("--pair", action="append", default=[], help="pairs whose name begins so; repeatable")
    parser.add_argument("--only", action="append", default=[], help="pairs whose name has this text; repeatable")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
