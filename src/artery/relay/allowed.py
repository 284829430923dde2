"""Whom a relay lets in: the certificates in its folder, and the answers to ZeroMQ's question about each connection."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import msgspec
import zmq
import zmq.utils.z85

from artery.errors import BadSetting, Unavailable
from artery.relay import metrics
from artery.telemetry import logger
from artery.wire import certificates
from artery.wire.certificates import ALLOWED, Certificate
from artery.wire.sockets import Context, Kind

DOORS = {
    "requests": "client",
    "clients": "client",
    "work": "ingestor",
    "control": "ingestor",
    "processors": "processor",
}
"""The role that each socket asks for."""
LOOK_S = 1.0
"""How often the folder is looked at: so soon a key comes to be allowed, or is cut."""
ALLOWED_MAX = 10_000
SHUT_OUT_S = 600.0
"""How long a key that spoiled a socket stays outside, so that it cannot have everyone cut again and again."""
_ZAP = "inproc://zeromq.zap.01"

_log = logger("relay")


class Revoked(Unavailable):
    """Someone who had come in is no longer allowed: every connection has to be made anew."""


class ShutOut(dict[str, float]):
    """Keys that are not let in for a while, and until when; it outlives the sockets."""

    def holds(self, key: str, now_s: float) -> bool:
        return self.get(key, 0.0) > now_s


class Guest(msgspec.Struct, frozen=True):
    user: str
    roles: tuple[str, ...]


class Allowed:
    """The allow-list. `run` answers for ZAP and follows the folder; it ends by `Revoked`."""

    def __init__(self, folder: Path, context: Context, outside: ShutOut) -> None:
        self._asked = context.socket(Kind.REP)
        self._asked.bind(_ZAP, "ART_RELAY_KEYS")
        self._folder = folder / ALLOWED
        self._guests = guests(self._folder)
        self._came: set[str] = set()
        self._outside = outside

    def user(self, key: str) -> str:
        """Whose key this is; nobody's, if it is no longer allowed."""
        guest = self._guests.get(key)
        return guest.user if guest else ""

    def shut_out(self, key: str) -> NoReturn:
        """This key has sent what no subscriber sends: it stays outside, and everyone else comes back at once."""
        metrics.REFUSED.labels("keys", "shut_out").inc()
        _log.warning("a key is shut out for what it sent", key=key, user=self.user(key), for_s=SHUT_OUT_S)
        self._outside[key] = time.monotonic() + SHUT_OUT_S
        raise Revoked("a key was shut out")

    async def run(self) -> None:
        """Answer until someone who is in is no longer allowed."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            while True:
                self._asked.send(self.answer(await self._asked.receive()))

    def answer(self, frames: Sequence[bytes]) -> list[bytes]:
        """The answer to one question of ZAP: who it is, or no."""
        head, rest = list(frames[:2]), frames[2:]
        if len(rest) != 5 or rest[3] != b"CURVE" or len(rest[4]) != 32:
            return _no(head, "mechanism")
        door, address, key = rest[0].decode(errors="replace"), rest[1].decode(errors="replace"), _text(rest[4])
        guest = self._guests.get(key)
        if self._outside.holds(key, time.monotonic()):
            return _no(head, "shut_out")
        if guest is None or DOORS.get(door) not in guest.roles:
            why = "unknown_key" if guest is None else "role"
            _log.warning("a key was not let in", door=door, address=address, key=key, why=why)
            return _no(head, why)
        self._came.add(key)
        metrics.LET_IN.labels(door).inc()
        return [*head, b"200", b"OK", key.encode(), b""]

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            found = await asyncio.to_thread(guests, self._folder)
            left = [key for key in self._came if found.get(key) != self._guests.get(key)]
            self._guests = found
            if left:
                _log.info("a key that was in use is no longer allowed: all connections are made anew", keys=len(left))
                raise Revoked("a key was revoked")


def guests(folder: Path) -> Mapping[str, Guest]:
    """Everyone who may come in, by the public key. A file that cannot be read lets nobody in, and is said."""
    found: dict[str, Guest] = {}
    for path in sorted(folder.glob("*.key"))[:ALLOWED_MAX]:
        try:
            one = certificates.read(path)
        except BadSetting as error:
            _log.warning("a certificate is left out", reason=str(error))
            continue
        found[one.public] = Guest(one.user, one.roles)
    return found


def pair_of(folder: Path) -> Certificate:
    """The relay's own pair; `BadSetting` if the folder is not fit to guard a relay."""
    if not (folder / certificates.RELAY).is_file():
        raise BadSetting(
            f"there is no {certificates.RELAY} in ART_RELAY_KEYS, which is {str(folder)!r:.120}: make it with"
            " `artery keys curve NAME`"
        )
    return certificates.own(folder / certificates.RELAY)


def _text(key: bytes) -> str:
    return zmq.utils.z85.encode(key).decode()


def _no(head: list[bytes], why: str) -> list[bytes]:
    metrics.REFUSED.labels("keys", why).inc()
    # 300, not 400: it is cut without a word and may come again, since its key may be allowed later.
    return [*head, b"300", b"not allowed", b"", b""]
