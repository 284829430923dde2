"""CURVE key pairs as files, in ZeroMQ's own format: who someone is to a relay, and whom a relay lets in.

A relay's folder holds its own pair (`relay.key_secret`) and a public certificate for everyone it lets in
(`allowed/NAME.key`). What others carry is one file, `NAME.key_secret`: their own pair and the relay's public key.
"""

import os
import re
from pathlib import Path

import msgspec

from artery.errors import BadInput, BadSetting

RELAY, ALLOWED = "relay.key_secret", "allowed"
ROLES = {
    "client": "asks for history and subscribes",
    "ingestor": "hears of work and what to do",
    "processor": "publishes market data and outcomes",
}
BYTES_MAX = 4_096
_KEY = re.compile(r"[!-~]{40}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
_LINE = re.compile(r'\s*([a-z-]+)\s*=\s*"([^"]*)"\s*')


class Certificate(msgspec.Struct, frozen=True):
    """One key, whose it is and what it may do. `secret` is known to its holder alone; `server` is the relay's key."""

    name: str
    public: str
    secret: str = ""
    server: str = ""
    user: str = ""
    roles: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Certificate({self.name}, {self.public})"  # never the secret: this may reach a log


def make(name: str, *, user: str = "", roles: tuple[str, ...] = (), server: str = "") -> Certificate:
    """A new pair; `BadInput` for a name or role that cannot be."""
    import zmq

    for text, what in ((name, "a certificate's name"), (user or name, "a user's name")):
        if not _NAME.fullmatch(text):
            raise BadInput(f"{what} is 1 to 64 letters, digits and ._@-, not {text!r:.80}")
    for role in roles:
        if role not in ROLES:
            raise BadInput(f"{role!r:.40} is not a role; there are {', '.join(ROLES)}")
    public, secret = zmq.curve_keypair()
    return Certificate(name, public.decode(), secret.decode(), server, user or name, roles)


def write(path: Path, certificate: Certificate, *, with_secret: bool) -> None:
    """A new file that only its owner can read, if it holds the secret; one that is there is left alone."""
    said = {"user": certificate.user, "roles": ",".join(certificate.roles), "server": certificate.server}
    keys = {"public-key": certificate.public} | ({"secret-key": certificate.secret} if with_secret else {})
    lines = ["metadata", *(f'    {name} = "{value}"' for name, value in said.items() if value)]
    lines += ["curve", *(f'    {name} = "{value}"' for name, value in keys.items())]
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if with_secret else 0o644)
    except FileExistsError:
        raise BadInput(f"{path} is there already: remove it first, or choose another name") from None
    with os.fdopen(file, "w") as out:
        out.write("\n".join(lines) + "\n")


def read(path: Path) -> Certificate:
    """The certificate in a file; `BadSetting` says what is wrong with it."""
    try:
        text = path.read_bytes()[: BYTES_MAX + 1].decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(f"{path} cannot be read as a key: {error}") from error
    found = {match[1]: match[2] for line in text.splitlines() if (match := _LINE.fullmatch(line))}
    keys = {name: found.get(name, "") for name in ("public-key", "secret-key", "server")}
    if len(text) > BYTES_MAX or not keys["public-key"] or any(key and not _KEY.fullmatch(key) for key in keys.values()):
        raise BadSetting(f"{path} holds no CURVE key: make one with `artery keys curve`")
    name = path.name.removesuffix("_secret").removesuffix(".key")
    roles = tuple(role for role in found.get("roles", "").split(",") if role in ROLES)
    return Certificate(name, keys["public-key"], keys["secret-key"], keys["server"], found.get("user") or name, roles)


def own(path: Path, made_by: str = "`artery keys curve`") -> Certificate:
    """A pair with its secret, in a file that nobody else can read."""
    found = read(path)
    if not found.secret:
        raise BadSetting(f"{path} holds no secret key: it has to be the file {made_by} wrote for its owner")
    if path.stat().st_mode & 0o077:
        raise BadSetting(f"{path} holds a secret and others can read it: run `chmod 600 {path}`")
    return found


def carried(file: str | Path) -> Certificate | None:
    """What a client, ingestor or processor carries: its own pair, and the key by which it knows the relay; nothing, if
    no file is named."""
    if not file:
        return None
    found = own(Path(file))
    if not found.server:
        raise BadSetting(
            f"{file} does not name the relay's key: have `artery keys curve` make it in the relay's folder"
        )
    return found
