"""Where relays listen, as each of them says in the store every few seconds."""

from collections.abc import Iterable

import msgspec

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

    def ports(self) -> dict[str, str]:
        """The ports alone, for people."""
        return {name: url.rpartition(":")[2] for name, url in msgspec.structs.asdict(self).items() if url}


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
