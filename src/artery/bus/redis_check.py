"""What is wrong with a Redis server's set-up, for people."""

import re
from typing import Any

from artery.errors import ArteryError
from artery.store.redis_link import Link

_KEEPS = "noeviction"


def findings(info: str, config: dict[str, str]) -> list[str]:
    """Sentences that say what to change, by what the server says of itself."""
    found = []
    policy = _said(info, "maxmemory_policy") or config.get("maxmemory-policy", "")
    if _said(info, "aof_enabled") == "0":
        found.append("the append-only file is off, so a restart loses data: set appendonly yes")
    elif config.get("appendfsync") == "no":
        found.append("the append-only file is synced when the system likes: set appendfsync everysec, or always")
    if _said(info, "aof_last_write_status") == "err":
        found.append("the append-only file could not be written: check the server's disk")
    if policy and policy != _KEEPS:
        found.append(f"memory is made by removing data ({policy}): set maxmemory-policy {_KEEPS}")
    if _said(info, "maxmemory") == "0":
        found.append("there is no limit of memory, so the system may kill the server: set maxmemory")
    if _said(info, "role") == "slave":
        found.append("this server is a replica, which takes no writes: use its primary")
    return found


def _said(info: str, name: str) -> str:
    match = re.search(rf"^{name}:(\S*)", info, re.MULTILINE)
    return match[1] if match else ""


async def check_redis(url: str, setting: str = "ART_BUS_URL") -> list[str]:
    """What to change at the server that a URL names; nothing if all is well. Says so too if it cannot be used."""
    try:
        return await look_at_redis(url, setting)
    except ArteryError as error:
        return [str(error)]


async def look_at_redis(url: str, setting: str = "ART_BUS_URL") -> list[str]:
    """The same, but a server that cannot be used is raised."""
    link = Link(url, setting, text=True)
    try:
        info, config = await link.calls([("INFO",), ("CONFIG", "GET", "appendfsync")])
        return [f"{link.server.name}: {found}" for found in findings(link.answer(info), _named(config))]
    finally:
        await link.close()


def _named(reply: Any) -> dict[str, str]:
    """CONFIG's answer; servers of others often forbid it, and then nothing is known."""
    return {} if isinstance(reply, Exception) else dict(zip(reply[::2], reply[1::2], strict=True))
