"""How often one name may do something: a token bucket for each name. Pure, with bounded memory."""

import ipaddress

_NAMES_MAX = 10_000
_IPV6_NETWORK = 64


class Rates:
    """A bucket of `burst` tokens for each name, filled at `per_s`; 0 a second means no limit.

    A name is kept as one number, the moment at which its bucket is full again, and the names that were heard of
    longest ago are forgotten when there are too many: a flood of names costs no memory.
    """

    def __init__(self, per_s: float, burst: float, names_max: int = _NAMES_MAX) -> None:
        self._token_s = 1 / per_s if per_s > 0 else 0.0
        self._burst_s = burst * self._token_s
        self._names_max = names_max
        self._full_s: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._full_s)

    def wait_s(self, name: str, now_s: float, cost: float = 1.0) -> float:
        """How long until so many tokens are there; 0 if they are. Nothing is taken."""
        if not self._token_s:
            return 0.0
        return max(0.0, self._after(name, now_s, cost) - now_s - self._burst_s)

    def take(self, name: str, now_s: float, cost: float = 1.0) -> float:
        """Take the tokens and return 0, or return how long to wait and take nothing."""
        wait_s = self.wait_s(name, now_s, cost)
        if not wait_s:
            self.spend(name, now_s, cost)
        return wait_s

    def spend(self, name: str, now_s: float, cost: float = 1.0) -> None:
        """Take the tokens even if they are not there; a bucket is never more than empty."""
        if not self._token_s:
            return
        full_s = min(self._after(name, now_s, cost), now_s + self._burst_s)
        self._full_s.pop(name, None)
        if len(self._full_s) >= self._names_max:
            del self._full_s[next(iter(self._full_s))]
        self._full_s[name] = full_s

    def _after(self, name: str, now_s: float, cost: float) -> float:
        """When the bucket would be full again if the tokens were taken."""
        return max(self._full_s.get(name, now_s), now_s) + cost * self._token_s


def network(address: str) -> str:
    """Whom an address stands for: itself, or its /64, as one customer of IPv6 has all of that."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, _IPV6_NETWORK), strict=False))
