"""Which markets this gateway's clients want followed, within limits. Synchronous; one loop owns it."""

from collections import Counter
from collections.abc import Sequence

from artery.errors import BadInput
from artery.gateway import metrics
from artery.model.channels import ALL_MIDS, Channel
from artery.model.events import EXTERNAL
from artery.settings import Settings


class Demand:
    """Counts sessions by channel, and by key those of markets that the settings do not name."""

    def __init__(self, settings: Settings) -> None:
        ingest = settings.ingest
        self._free = {str(Channel(ingest.provider, coin)) for coin in ingest.markets}
        self._most = settings.gateway.demand_max
        self._most_of_key = settings.gateway.key_demand_max
        self._channels: Counter[str] = Counter()
        self._extra: set[str] = set()
        self._keys: dict[str, Counter[str]] = {}

    def take(self, owner: str, channels: Sequence[str]) -> str:
        """A key's session wants these too; a sentence that says why not, and then none of them counts."""
        names = [name for name in channels if name in self._free or _market(name) is not None]
        asked = [name for name in names if name not in self._free]
        mine = self._keys.get(owner, Counter())
        if len(mine) + len(set(asked) - mine.keys()) > self._most_of_key:
            return self._refuse("key", f"a key may have {self._most_of_key} markets followed beside the usual ones")
        if asked and len(self._extra) + len(set(asked) - self._extra) > self._most:
            return self._refuse("gateway", f"this gateway has {self._most} markets followed beside the usual ones")
        self._channels.update(names)
        if asked:
            self._extra.update(asked)
            self._keys.setdefault(owner, Counter()).update(asked)
        return ""

    def give(self, owner: str, channel: str) -> None:
        """A session does not want this any more."""
        _less(self._channels, channel)
        if channel not in self._channels:
            self._extra.discard(channel)
        if owner in self._keys:
            _less(self._keys[owner], channel)
            if not self._keys[owner]:
                del self._keys[owner]

    def wanted(self) -> list[Channel]:
        """The markets that some session wants."""
        return [market for name in self._channels if (market := _market(name)) is not None]

    def _refuse(self, whose: str, words: str) -> str:
        metrics.DEMAND_REFUSED.labels(whose).inc()
        return f"{words}: leave some of them first"


def _market(name: str) -> Channel | None:
    """The market that a feed would have to follow for this channel, if there is one."""
    try:
        channel = Channel.parse(name)
    except BadInput:
        return None
    return None if channel.market == ALL_MIDS or channel.provider == EXTERNAL else channel


def _less(counts: Counter[str], name: str) -> None:
    if name in counts:
        counts[name] -= 1
        if not counts[name]:
            del counts[name]
