"""The socket that the gateway listens on, or one sentence on why there is none."""

import contextlib
import errno
import socket
from collections.abc import Iterator

from artery.errors import CannotStart

_BACKLOG = 2_048
_UNSENT_BYTES = 1024 * 1024
"""What the system may hold for a client that does not read, before its connection counts as slow."""


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that listens, or `CannotStart` in one sentence; nothing else has been started by then."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, proto)
    except (OSError, UnicodeError) as error:
        raise CannotStart(f"{host!r:.80} is not an address to listen on; set ART_GATEWAY_HOST") from error
    with listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
            listener.setblocking(False)
            _bound_unsent(listener)
        except OSError as error:
            raise CannotStart(_why(host, port, error)) from error
        yield listener


def _bound_unsent(listener: socket.socket) -> None:
    """Connections inherit the bound; where the system knows none, its own buffers are the bound."""
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        with contextlib.suppress(OSError):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)


def _why(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is taken: stop what uses it, or set ART_GATEWAY_PORT to another one (0 takes a free one)"
    if error.errno == errno.EACCES:
        return f"port {port} may not be used by this user: set ART_GATEWAY_PORT to one above 1023"
    return f"{host}:{port} cannot be listened on ({error.strerror}): set ART_GATEWAY_HOST and ART_GATEWAY_PORT"
