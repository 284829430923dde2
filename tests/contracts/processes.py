"""Start other processes that use the same backend."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

from tests.contracts.conftest import WAIT_S, BusKit

ROOT = Path(__file__).parents[2]


async def appender(kit: BusKit, stream: str, who: str, batches: int, size: int) -> Process:
    """A process that is ready to append; `go` lets it."""
    arguments = [kit.url, kit.base, stream, who, str(batches), str(size)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.contracts.appender", *arguments, stdin=PIPE, stdout=PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    async with asyncio.timeout(WAIT_S):
        assert await process.stdout.readline() == b"READY\n"
    return process


async def go(process: Process) -> None:
    """Let it append, and wait until it has ended well."""
    async with asyncio.timeout(WAIT_S):
        await process.communicate(b"go\n")
    assert process.returncode == 0
