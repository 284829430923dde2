"""Where relays listen, as each of them says in the store every few seconds."""

from collections.abc import Iterable

import msgspec

from artery.errors import Unavailable

PREFIX = "artery:relay:"
SAY_S = 5.0
TTL_S = 20.0


class Relay(msgspec.Struct, frozen=True):
    """The addresses of one relay; `processors` is empty where the relay itself connects to them."""

    requests: str
    """Clients ask here (REQ or DEALER)."""
    work: str
    """Ingestors hear of work here (SUB)."""
    control: str
    """Ingestors are told here what to do (SUB)."""
    processors: str
    """Whoever has market data and outcomes sends them here (PUB)."""
    clients: str
    """Clients subscribe here (SUB)."""
    keys: bool = False
    """Whether it lets in only those whose key it knows."""
    connected: tuple[str, ...] = ()
    """The processors it is connected to, where it looks for them itself."""

    def ports(self) -> dict[str, str]:
        """The ports alone, for people."""
        urls = {name: value for name, value in msgspec.structs.asdict(self).items() if isinstance(value, str)}
        return {name: url.rpartition(":")[2] for name, url in urls.items() if url}


def reached_by(relay: Relay, host: str) -> Relay:
    """The same relay, with the host by which others reach it."""
    urls = {name: _tcp(host, port) for name, port in relay.ports().items()}
    return msgspec.structs.replace(relay, **urls)


def _tcp(host: str, port: str) -> str:
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def key(relay_id: str) -> str:
    return PREFIX + relay_id


def encode(relay: Relay) -> bytes:
    return msgspec.json.encode(relay)


def decode(values: Iterable[tuple[str, bytes]]) -> list[Relay]:
    """The relays in what a scan of the store found; what cannot be read is left out."""
    found = []
    for _, value in values:
        try:
            found.append(msgspec.json.decode(value, type=Relay))
        except msgspec.DecodeError:
            continue
    return found


def fitting(found: Iterable[Relay], *, carries_key: bool) -> list[Relay]:
    """Those that one with a key, or without one, can talk to; `Unavailable` if there are only others."""
    known = list(found)
    fit = [relay for relay in known if relay.keys == carries_key]
    if known and not fit:
        raise Unavailable(
            "the relay takes no keys: empty ART_RELAY_KEY"
            if carries_key
            else "the relay asks for a key: set ART_RELAY_KEY"
        )
    return fit
