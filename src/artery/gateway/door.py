"""What a request shows at the door: its Host, its Origin, its credential. Pure."""

import re
from collections.abc import Iterable
from urllib.parse import parse_qs

from artery.gateway.access import Credential

SUBPROTOCOL = "artery.v1"
_BEARER = "bearer."
_HOST = re.compile(r"(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9.-]{1,253})(?::([0-9]{1,5}))?", re.ASCII)
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_ANY = ("", "0.0.0.0", "::", "[::]")


class Door:
    """Lets in who asked for this gateway by a name it answers to, from a page of its own or of a named Origin.

    A page on another site can make a browser ask, and can give its own name our address; the browser then tells
    the page's name in Origin and Host, and neither is ours.
    """

    def __init__(self, host: str, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> None:
        own = () if host in _ANY else (f"[{host}]" if ":" in host and not host.startswith("[") else host,)
        self._hosts = frozenset(name.lower() for name in (*_LOOPBACK, *own, *hosts))
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)

    def host_allowed(self, host: str) -> bool:
        match = _HOST.fullmatch(host)
        return match is not None and match[1].lower() in self._hosts

    def origin_allowed(self, origin: str | None, host: str) -> bool:
        """No Origin: not a browser's page. Its own page has the request's Host in it."""
        if origin is None:
            return True
        lowered = origin.lower()
        return lowered in (f"http://{host.lower()}", f"https://{host.lower()}") or lowered in self._origins


def credential(
    *, authorization: str = "", protocols: Iterable[str] = (), query: str = "", cookies: str = "", cookie_name: str
) -> Credential:
    """The first that is given: the header, a subprotocol, the token in the address, the cookie."""
    scheme, _, value = authorization.strip().partition(" ")
    if authorization:
        return Credential(key=value.strip() if scheme.lower() == "bearer" else "-")
    for protocol in protocols:
        if protocol.startswith(_BEARER):
            return Credential(key=protocol.removeprefix(_BEARER))
    if "token=" in query:
        return Credential(key=_token(query))
    return Credential(cookie=cookie_value(cookies, cookie_name))


def _token(query: str) -> str:
    try:
        return parse_qs(query, max_num_fields=100).get("token", ["-"])[0]
    except ValueError:
        return "-"


def cookie_value(cookies: str, name: str) -> str:
    """The value of one cookie in a Cookie header."""
    for pair in cookies.split(";"):
        key, equals, value = pair.strip().partition("=")
        if equals and key == name:
            return value.strip().strip('"')
    return ""
