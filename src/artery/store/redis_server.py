"""One Redis server: what its address says, and what its errors mean to people."""

import re
import ssl
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from artery.errors import ArteryError, BadInput, BadSetting, CannotStart, Unavailable

try:
    import hiredis  # noqa: F401  (replies are read by it)
    from redis import exceptions
except ImportError as missing:
    raise CannotStart("Redis needs its driver: install it with pip install 'artery[redis]'") from missing

CALL_S = 2.5
"""How long a call may take, with everything that it waits for."""
OLDEST = (7, 0)
_PORT = 6379
_FORM = (
    "redis://host:6379/0 (rediss:// for TLS, redis://:password@host for a password, in which / # ? @ % are "
    "%2F %23 %3F %40 %25)"
)
_TRANSIENT = ("LOADING", "BUSY", "TRYAGAIN", "MASTERDOWN", "CLUSTERDOWN", "MISCONF", "NOREPLICAS", "UNBLOCKED")


class Server(NamedTuple):
    """Where a server is, without secrets in `name`; `setting` is what a person would change."""

    name: str
    setting: str
    options: dict[str, Any]
    tls: bool
    unix: bool

    def translate(self, error: Exception) -> ArteryError:
        """What a driver's error means, in one sentence that says what to do."""
        if isinstance(error, ArteryError):
            return error
        if isinstance(error, exceptions.AuthenticationError | exceptions.NoPermissionError):
            return BadSetting(_refusal(self, error))
        if isinstance(error, exceptions.BusyLoadingError):
            return Unavailable(f"{self.name} is reading its data after a start: it answers soon")
        if isinstance(error, TimeoutError | exceptions.TimeoutError):
            return self.silent()
        if isinstance(error, exceptions.ResponseError):
            return _answer(self, error)
        if isinstance(error, ssl.SSLError) or "SSL" in str(error) or "CERTIFICATE" in str(error):
            return Unavailable(f"{self.name} does not speak TLS as asked for: check {self.setting} and certificates")
        return Unavailable(
            f"{self.name} cannot be reached ({_reason(error)}): start Redis there, or set {self.setting}"
        )

    def silent(self) -> Unavailable:
        return Unavailable(f"{self.name} did not answer within {CALL_S} s: check that Redis runs there and is not busy")

    def check(self, info: str) -> None:
        """Refuse a server that is too old, or split, by what it says of itself."""
        found = re.search(r"redis_version:(\d+)\.(\d+)", info)
        version = (int(found[1]), int(found[2])) if found else (0, 0)
        if version < OLDEST:
            said = ".".join(map(str, version)) if found else "of an unknown version"
            needed = ".".join(map(str, OLDEST))
            raise CannotStart(f"{self.name} is {said}: Artery needs Redis {needed} or newer there")
        if "redis_mode:cluster" in info:
            raise CannotStart(f"{self.name} is part of a cluster: point {self.setting} at a single Redis server")


def server_of(url: str, setting: str) -> Server:
    """`redis://user:password@host:6379/0`, `rediss://…`, `unix:///path?db=0` → where that is, or `BadSetting`.

    No part of an address is ever repeated to people: where a password is not escaped, it may hold some of that.
    """
    parts, port = _split(url, setting)
    options: dict[str, Any] = {"db": _db(parts, setting)}
    if parts.username:
        options["username"] = unquote(parts.username)
    if parts.password:
        options["password"] = unquote(parts.password)
    unix, tls = parts.scheme == "unix", parts.scheme == "rediss"
    if unix:
        options["path"] = unquote(parts.path)
    else:
        options |= {"host": parts.hostname, "port": port}
    if tls:
        options |= _certificates(parts.query, setting)
    return Server(f"Redis at {parts.path if unix else f'{parts.hostname}:{port}'}", setting, options, tls, unix)


def _split(url: str, setting: str) -> tuple[SplitResult, int]:
    try:
        parts = urlsplit(url)
        port = _PORT if parts.port is None else parts.port
    except ValueError:
        raise BadSetting(f"{setting} is not an address: write {_FORM}") from None
    placed = parts.path if parts.scheme == "unix" else parts.hostname
    if parts.scheme not in ("redis", "rediss", "unix") or not placed or parts.fragment:
        raise BadSetting(f"{setting} names no Redis server: write {_FORM}")
    if parts.query and parts.scheme == "redis":
        raise BadSetting(f"{setting} takes no options after a question mark: write {_FORM}")
    return parts, port


def _db(parts: SplitResult, setting: str) -> int:
    text = parts.query.removeprefix("db=") if parts.scheme == "unix" else parts.path.strip("/")
    if not re.fullmatch(r"[0-9]{0,6}", text, re.ASCII):
        raise BadSetting(f"{setting} names a database that is not a number: write {_FORM}")
    return int(text or 0)


def _certificates(query: str, setting: str) -> dict[str, str]:
    """`?ssl_ca_certs=/path&ssl_certfile=…&ssl_keyfile=…` → the driver's options."""
    options = dict(pair.split("=", 1) for pair in query.split("&") if "=" in pair)
    if set(options) - {"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"}:
        raise BadSetting(f"{setting} takes nothing but ssl_ca_certs, ssl_certfile and ssl_keyfile: write {_FORM}")
    return {name: unquote(path) for name, path in options.items()}


def _refusal(server: Server, error: Exception) -> str:
    if isinstance(error, exceptions.NoPermissionError):
        return (
            f"{server.name} does not permit this user what Artery needs ({error}): change its ACL or {server.setting}"
        )
    if "without any password" in str(error):
        return f"{server.name} has no password, but {server.setting} gives one: leave it out"
    if server.options.get("password"):
        return f"{server.name} refuses this user or password: correct it in {server.setting}"
    return f"{server.name} wants a password: write redis://:password@host:port in {server.setting}"


def _answer(server: Server, error: exceptions.ResponseError) -> ArteryError:
    """What an error reply means."""
    text = str(error)
    if isinstance(error, exceptions.ReadOnlyError):
        return Unavailable(f"{server.name} is a replica that takes no writes: point {server.setting} at the primary")
    if is_full(error):
        return Unavailable(f"{server.name} is out of memory: raise its maxmemory, or trim more")
    if isinstance(error, exceptions.MovedError | exceptions.AskError) or text.startswith("CROSSSLOT"):
        return CannotStart(f"{server.name} is part of a cluster: point {server.setting} at a single Redis server")
    if text.startswith("WRONGTYPE"):
        return BadSetting(f"{server.name} holds something else under a name that Artery uses: choose another database")
    if text.startswith("DENIED"):
        return BadSetting(
            f"{server.name} is in protected mode, which lets in only its own machine: set a password there "
            f"(requirepass) and in {server.setting}, or bind it to an address that nobody else reaches"
        )
    if "DB index is out of range" in text:
        return BadSetting(f"{server.name} has no database of that number: correct {server.setting}")
    if text.startswith(_TRANSIENT):
        return Unavailable(f"{server.name} cannot serve now ({text:.120}): check the server")
    return BadInput(f"{server.name} refused a command ({text:.120})")


def is_full(reply: Any) -> bool:
    """Whether a reply says that the server's memory is used up."""
    return isinstance(reply, exceptions.OutOfMemoryError) or (
        isinstance(reply, exceptions.ResponseError) and str(reply).startswith("OOM")
    )


def _reason(error: Exception) -> str:
    cause = error.__cause__ or error.__context__
    if isinstance(cause, ConnectionRefusedError | FileNotFoundError) or "refused" in str(error):
        return "nothing listens there"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(error).splitlines()[0][:120] if str(error) else type(error).__name__
