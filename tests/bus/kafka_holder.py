"""A process that takes five entries, acks two and lives on: `python -m tests.bus.kafka_holder URL BASE GROUP`."""

import asyncio
import sys

from artery.bus.open import open_bus


async def main(url: str, base: str, group: str) -> None:
    bus = open_bus(url, base)
    entries = await bus.read_new("trade", group, "a", limit=5, wait_ms=20_000)
    await bus.ack("trade", group, [entry.id for entry in entries[:2]])
    print(*(entry.fields["n"] for entry in entries), flush=True)
    await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
