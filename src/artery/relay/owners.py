"""Whose a topic is, where keys say who someone is: what is said to one user is not for another."""

from collections.abc import Iterator

from artery.store.base import Store
from artery.wire import topics
from artery.wire.requests import TTL_S

PRIVATE = tuple(made("").removesuffix("|") for made in (topics.response, topics.history_ready))
"""How topics begin that belong to a user: whoever uses one first, in a subscription or a request, has it."""
NOBODYS = topics.user("").removesuffix("|")
"""User events have a way of their own; nothing here is published on their topics."""
_HIDDEN = (*PRIVATE, NOBODYS)
_SIGNS = [chr(code) for code in range(0x21, 0x7F)]


class Owners:
    """Binds topics to users, in the store, so that every relay says the same."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def may_use(self, user: str, topic: str) -> bool:
        """Whether this topic is the user's; a topic that is nobody's becomes so, for a week after its last use."""
        return await self._store.put_if_absent(_key(topic), user.encode(), TTL_S) or await self.owns(user, topic)

    async def owns(self, user: str, topic: str) -> bool:
        """Whether this topic is the user's already, which it then is for another week."""
        if await self._store.get(_key(topic)) != user.encode():
            return False
        await self._store.put(_key(topic), user.encode(), TTL_S)
        return True

    async def could_use(self, user: str, topic: str) -> bool:
        """Whether this topic is not someone else's; nothing is taken."""
        return await self._store.get(_key(topic)) in (None, user.encode())


def _key(topic: str) -> str:
    return f"artery:owner:{topic.removesuffix('|')}"


def is_private(topic: str) -> bool:
    """Whether exactly one user may hear it."""
    return topic.startswith(PRIVATE)


def whole(topic: str) -> str:
    """A private topic with its closing sign, without which it would be others' too."""
    return topic.removesuffix("|") + "|"


def public_parts(prefix: str) -> Iterator[str]:
    """Prefixes that together match all that begins with `prefix` and is for everyone: `prefix` itself, if nothing
    private begins so; otherwise its continuations that lead nowhere private."""
    if not any(hidden.startswith(prefix) or prefix.startswith(hidden) for hidden in _HIDDEN):
        yield prefix
    elif not prefix.startswith(_HIDDEN):
        for sign in _SIGNS:
            yield from public_parts(prefix + sign)
