"""API keys: shown once, kept as a hash, compared in constant time."""

import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from artery.errors import BadInput, CannotStart, NotAllowed, NotFound, TooMuch, Unavailable
from artery.gateway.grants import Grant, Scope
from artery.store.base import Store

PREFIX = "artery:key:"
CHANGED = "artery:keys:changed"
"""What stands here changes whenever a key or a page's session ends early: every gateway looks at it."""
START = "artery:start:"
START_S = 300
LOCAL_USER = "local"
ALL_SCOPES = tuple(Scope)
KEYS_MAX = 10_000
USER_MAX = 128
EXPIRY_MAX_S = 10 * 365 * 86_400
KEPT_S = 30 * 86_400
"""How long a key that has ended is still listed."""
_TRIES = 10

_TEXT = re.compile(r"art_live_([a-z0-9]{12})\.([A-Za-z0-9_-]{43})", re.ASCII)
_REFUSED = "the key is missing or not valid; `artery keys` makes one"


def wall_ms() -> int:
    """Unix milliseconds."""
    return time.time_ns() // 1_000_000


class Key(msgspec.Struct, frozen=True):
    """A key as it is kept: what it allows and the hash of its secret, never the secret."""

    id: str
    user: str
    scopes: tuple[str, ...]
    hash: str
    created_ms: int
    expires_ms: int | None = None
    revoked_ms: int | None = None

    def valid(self, now_ms: int) -> bool:
        return self.revoked_ms is None and (self.expires_ms is None or now_ms < self.expires_ms)

    def grant(self) -> Grant:
        return Grant(self.user, frozenset(self.scopes), PREFIX + self.id, self.expires_ms)

    def kept_s(self, now_ms: int) -> float | None:
        """How long the record is worth keeping; for ever, if the key does not end."""
        if self.revoked_ms is not None:
            return KEPT_S
        return None if self.expires_ms is None else KEPT_S + max(0, self.expires_ms - now_ms) / 1_000


async def make_key(store: Store, user: str, scopes: Iterable[str], expires_ms: int | None = None) -> tuple[Key, str]:
    """A new key and its text; the text cannot be had again."""
    wanted = tuple(dict.fromkeys(scopes))
    wrong = [scope for scope in wanted if scope not in ALL_SCOPES]
    if wrong or not wanted:
        raise BadInput(f"a key needs scopes out of {', '.join(ALL_SCOPES)}, not {', '.join(wrong) or 'none'}")
    if not user or len(user) > USER_MAX or not user.isprintable():
        raise BadInput(f"a key belongs to a user: name one, in at most {USER_MAX} letters that can be printed")
    if len(await store.scan(PREFIX, KEYS_MAX)) >= KEYS_MAX:
        raise TooMuch(f"there are {KEYS_MAX} keys already: revoke some, they are forgotten after 30 days")
    secret = secrets.token_urlsafe(32)
    now_ms = wall_ms()
    key = Key(secrets.token_hex(6), user, wanted, hashed(secret), now_ms, expires_ms)
    await store.put(PREFIX + key.id, msgspec.json.encode(key), key.kept_s(now_ms))
    return key, f"art_live_{key.id}.{secret}"


def expiry_ms(in_s: int | None, now_ms: int) -> int | None:
    """The moment so many seconds from now, or None for a key that does not expire."""
    if in_s is not None and not 0 <= in_s <= EXPIRY_MAX_S:
        raise BadInput("a key expires within ten years, or not at all")
    return None if in_s is None else now_ms + in_s * 1_000


async def verify(store: Store, text: str, *, now_ms: Callable[[], int] = wall_ms) -> Key:
    """The key that this text is, or `NotAllowed`; why it failed is not told."""
    match = _TEXT.fullmatch(text)
    key = await find(store, match[1]) if match else None
    # Compared in any case, so that an id that exists takes as long as one that does not.
    same = hmac.compare_digest(hashed(match[2] if match else text[:64]), key.hash if key else "0" * 64)
    if key is None or not same or not key.valid(now_ms()):
        raise NotAllowed(_REFUSED)
    return key


async def find(store: Store, key_id: str) -> Key | None:
    """The key with this id."""
    return _decoded(await store.get(PREFIX + key_id))


async def list_keys(store: Store) -> list[Key]:
    """Every key, oldest first."""
    found = [_decoded(raw) for _, raw in await store.scan(PREFIX, KEYS_MAX)]
    return sorted((key for key in found if key is not None), key=lambda key: key.created_ms)


async def revoke(store: Store, key_id: str) -> Key:
    """End a key; its live connections close within seconds, at every gateway."""
    return await _change(store, key_id, _revoked)


async def expire(store: Store, key_id: str, expires_ms: int | None) -> Key:
    """Let a key end at this moment, or never."""
    return await _change(store, key_id, lambda key: _expiring(key, expires_ms))


async def announce(store: Store) -> None:
    """Tell every gateway that a key or a page's session has ended."""
    await store.put(CHANGED, secrets.token_bytes(8))


async def _change(store: Store, key_id: str, change: Callable[[Key], Key]) -> Key:
    """Change a key as one step, whatever others do to it meanwhile, then tell every gateway."""
    for _ in range(_TRIES):
        raw = await store.get(PREFIX + key_id)
        key = _decoded(raw)
        if key is None:
            raise NotFound(f"there is no key {key_id!r:.40}; `artery keys` lists them")
        changed = change(key)
        kept_s = changed.kept_s(wall_ms())
        if changed == key or await store.compare_and_set(PREFIX + key.id, raw, msgspec.json.encode(changed), kept_s):
            await announce(store)
            return changed
    raise Unavailable(f"the key {key_id} is being changed by others: try again")


def _revoked(key: Key) -> Key:
    return key if key.revoked_ms is not None else msgspec.structs.replace(key, revoked_ms=wall_ms())


def _expiring(key: Key, expires_ms: int | None) -> Key:
    if key.revoked_ms is not None:
        raise BadInput(f"the key {key.id} was revoked and stays so: make a new one")
    return msgspec.structs.replace(key, expires_ms=expires_ms)


def _decoded(raw: bytes | None) -> Key | None:
    if raw is None:
        return None
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(raw, type=Key)
    return None


async def local_key(store: Store, folder: Path) -> str:
    """The local user's key, in a file that only that user can read; made at the first start."""
    file = folder / "key"
    text = _read(file)
    if text:
        with suppress(NotAllowed):
            await verify(store, text)
            return text
    _, text = await make_key(store, LOCAL_USER, ALL_SCOPES)
    _write(file, text)
    return text


async def make_start_code(store: Store) -> str:
    """A code that opens the page once, within five minutes, as the local user."""
    code = secrets.token_urlsafe(24)
    await store.put(START + hashed(code), b"1", ttl_s=START_S)
    return code


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return ""
    except OSError as error:
        raise CannotStart(f"the key in {file} cannot be read ({error.strerror}); make it yours or remove it") from error


def _write(file: Path, text: str) -> None:
    draft = file.with_name(f".key.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(text + "\n")
        draft.replace(file)
    except OSError as error:
        raise CannotStart(f"the key cannot be written to {file} ({error.strerror}); check the folder") from error


def hashed(secret: str) -> str:
    """What the store keeps in place of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()
