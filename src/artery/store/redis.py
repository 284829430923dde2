"""The store in Redis, shared by every process that can reach it."""

import re
from collections.abc import Sequence
from typing import Any

from artery.errors import BadInput
from artery.store.redis_link import Link, Script

KEY_MAX = 1_024
VALUE_MAX_BYTES = 1024 * 1024
SCAN_MAX = 100_000
SCAN_ROUNDS_MAX = 100_000
PAGE = 1_000

# ARGV: whether a value is expected, that value, whether there is a new one, the new one, its TTL or nothing.
_COMPARE_AND_SET = Script("""
local held = redis.call('GET', KEYS[1])
if ARGV[1] == '1' then
  if held ~= ARGV[2] then return 0 end
elseif held then
  return 0
end
if ARGV[3] == '0' then
  redis.call('DEL', KEYS[1])
elseif ARGV[5] == '' then
  redis.call('SET', KEYS[1], ARGV[4])
else
  redis.call('SET', KEYS[1], ARGV[4], 'PX', ARGV[5])
end
return 1
""")


class RedisStore:
    """Keys are Redis's keys, values its strings; a TTL is kept by the server.

    What was written is as durable as the server's append-only file: see `bus/redis.py`.
    """

    def __init__(self, url: str) -> None:
        self._link = Link(url, "ART_STORE_URL")

    async def get(self, key: str) -> bytes | None:
        value: bytes | None = await self._link.call("GET", _checked(key))
        return value

    async def put(self, key: str, value: bytes, ttl_s: float | None = None) -> None:
        ttl_ms = _ttl_ms(ttl_s)
        await self._link.call("SET", _checked(key), _sized(value), *(("PX", ttl_ms) if ttl_ms else ()))

    async def put_if_absent(self, key: str, value: bytes, ttl_s: float | None = None) -> bool:
        return await self.compare_and_set(key, None, value, ttl_s)

    async def compare_and_set(
        self, key: str, expected: bytes | None, value: bytes | None, ttl_s: float | None = None
    ) -> bool:
        args = (*_optional(expected), *_optional(None if value is None else _sized(value)), _ttl_ms(ttl_s) or "")
        done: int = self._link.answer(await self._link.run(_COMPARE_AND_SET, (_checked(key),), args))
        return bool(done)

    async def delete(self, key: str) -> bool:
        removed: int = await self._link.call("DEL", _checked(key))
        return bool(removed)

    async def scan(self, prefix: str, limit: int = 10_000) -> Sequence[tuple[str, bytes]]:
        """As in the base. The server looks at all of its keys, so it should not hold millions of others."""
        keys = await self._keys(_checked(prefix) if prefix else "")
        found: list[tuple[str, bytes]] = []
        wanted = max(0, min(limit, SCAN_MAX))
        for at in range(0, len(keys), PAGE):
            if len(found) >= wanted:
                break
            part = keys[at : at + PAGE]
            values = await self._link.call("MGET", *part)
            # What is gone since, or is no plain value, has none.
            found += [(key.decode(), value) for key, value in zip(part, values, strict=True) if value is not None]
        return found[:wanted]

    async def _keys(self, prefix: str) -> list[bytes]:
        """Keys that begin with `prefix` and are text, in order."""
        pattern = re.sub(r"([\[\]*?\\^])", r"\\\1", prefix) + "*"
        cursor, found = b"0", set[bytes]()
        for _ in range(SCAN_ROUNDS_MAX):
            reply: Any = await self._link.call("SCAN", cursor, "MATCH", pattern, "COUNT", PAGE)
            cursor = reply[0]
            found.update(reply[1])
            if cursor == b"0":
                break
        return sorted(key for key in found if _is_text(key))

    async def close(self) -> None:
        await self._link.close()


def _optional(value: bytes | None) -> tuple[str, bytes]:
    return ("0", b"") if value is None else ("1", value)


def _ttl_ms(ttl_s: float | None) -> int | None:
    if ttl_s is None:
        return None
    if not 0 < ttl_s < 1e9:
        raise BadInput(f"a TTL is above zero and below 1e9 seconds, not {ttl_s}")
    return max(1, int(ttl_s * 1_000))


def _is_text(key: bytes) -> bool:
    try:
        return bool(key.decode())
    except UnicodeDecodeError:
        return False


def _checked(key: str) -> str:
    if not 1 <= len(key) <= KEY_MAX:
        raise BadInput(f"a key has 1 to {KEY_MAX} characters, not {len(key)}")
    if not key.isascii() and any("\ud800" <= letter <= "\udfff" for letter in key):
        raise BadInput("a key is Unicode text, without surrogates")
    return key


def _sized(value: bytes) -> bytes:
    if len(value) > VALUE_MAX_BYTES:
        raise BadInput(f"a value has at most {VALUE_MAX_BYTES} bytes, not {len(value)}")
    return value
