"""`python -m bench [--only bus,relay …]`: measure, show a table, write bench/out/latest.json."""

import argparse
import asyncio
import signal
import sys

import uvloop

from bench import bus, gateway, lake, live, pipeline, relay, start
from bench.rows import Row, keep, show

PARTS = {
    "bus": bus.measure,
    "gateway": gateway.measure,
    "start": start.measure,
    "live": live.measure,
    "pipeline": pipeline.measure,
    "lake": lake.measure,
    "relay": relay.measure,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench")
    parser.add_argument("--only", default="", help=f"parts, separated by commas: {','.join(PARTS)}")
    wanted = [name for name in parser.parse_args().only.split(",") if name] or list(PARTS)
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        print(f"bench: no part is called {unknown[0]}; there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    # Asked to end, it ends what it has started, as at Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    rows: list[Row] = []
    for name in wanted:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        # The log is used in this process, so it runs on the loop that services run on.
        rows += (uvloop if name == "bus" else asyncio).run(PARTS[name]())
        keep(rows)
    show(rows)
    return 0 if all(item.ok for item in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
