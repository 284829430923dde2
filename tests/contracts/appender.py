"""Another process that writes: `python -m tests.contracts.appender URL BASE STREAM WHO BATCHES SIZE`.

It says READY once the bus is open, waits for a line, then appends.
"""

import asyncio
import sys

from artery.bus.open import open_bus


async def main(url: str, base: str, stream: str, who: str, batches: int, size: int) -> None:
    bus = open_bus(url, base)
    await bus.head(stream)
    print("READY", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    for batch in range(batches):
        await bus.append(stream, [{"who": who, "batch": str(batch), "n": str(n)} for n in range(size)])
    await bus.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5], *map(int, sys.argv[5:7])))  # type: ignore[arg-type]
