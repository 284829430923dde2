"""One Kafka cluster: what its address says, and what its errors mean to people."""

import re
import socket
import time
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from artery.errors import ArteryError, BadInput, BadSetting, CannotStart, Fenced, TooMuch, Unavailable

try:
    from confluent_kafka import KafkaError, KafkaException
except ImportError as missing:
    raise CannotStart("Kafka needs its driver: install it with pip install 'artery[kafka]'") from missing

CALL_S = 2.0
"""How long one request may take."""
ANSWER_S = 2.8
"""How long a call may take, with everything that it waits for."""
OLDEST = "3.1"
_PORT = 9092
_PROBE_S = 0.3
_REFUSED_S = 5.0
"""For how long a refusal explains why nobody answers."""
_FORM = (
    "kafka://host:9092 (several hosts with commas; kafka://user:password@host:9092?sasl=SCRAM-SHA-512&tls=on, in whose "
    "password / # ? @ % are %2F %23 %3F %40 %25)"
)
_OPTIONS = {
    "tls": "",
    "sasl": "sasl.mechanism",
    "ca": "ssl.ca.location",
    "cert": "ssl.certificate.location",
    "key": "ssl.key.location",
    "replication": "",
}
_AWAY = (
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._MSG_TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._WAIT_COORD,
)
_OLD = (KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION, KafkaError._NOT_IMPLEMENTED)
_REFUSED = (
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.UNSUPPORTED_SASL_MECHANISM,
)
_FORBIDDEN = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
_TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
FENCED = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
MISSING = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.UNKNOWN_TOPIC_ID,
)


class Server(NamedTuple):
    """Where a cluster is, without secrets in `name`; `setting` is what a person would change."""

    name: str
    setting: str
    hosts: tuple[tuple[str, int], ...]
    options: dict[str, Any]
    replication: int
    refusals: list[float]
    """When the cluster last refused this user or password; calls that meet it are only told that time is up."""

    def config(self, **more: Any) -> dict[str, Any]:
        """The driver's settings for one handle."""
        return _COMMON | {"error_cb": self._hear} | self.options | more

    def _hear(self, error: Any) -> None:
        """Trouble is said by the calls that meet it, but for this, of which they are not told."""
        if error.code() in _REFUSED:
            self.refusals[:] = [time.monotonic()]

    def _refused(self) -> bool:
        return any(time.monotonic() - at < _REFUSED_S for at in self.refusals)

    def translate(self, error: Exception) -> Exception:
        """What a driver's error means, in one sentence that says what to do; what is none of its errors stays."""
        said = code_of(error)
        if isinstance(error, BufferError):
            return TooMuch(f"{self.name} takes more time than there is room to wait in: send fewer at once")
        if is_away(error) and self._refused():
            return self._wrong_password()
        if is_away(error):
            return self.silent() if self._listens() else self.unreachable()
        return error if said is None else self._meaning(said)

    def _meaning(self, said: Any) -> ArteryError:
        code = said.code()
        if code in _OLD:
            return CannotStart(f"{self.name} is too old: Artery needs Kafka {OLDEST} or newer there")
        if code in _REFUSED:
            return self._wrong_password()
        if code in _FORBIDDEN:
            return BadSetting(
                f"{self.name} does not permit this user what Artery needs ({said.str()}): change its ACLs"
            )
        if code in FENCED:
            return Fenced(f"{self.name} has seen a newer writer: this one must stop")
        if code in _TOO_LARGE:
            return BadInput(f"{self.name} takes no entries as large as this: raise max.message.bytes of the topic")
        if code == KafkaError.INVALID_REPLICATION_FACTOR:
            return BadSetting(
                f"{self.name} has fewer brokers than {self.setting} asks copies of: write ?replication=1 there"
            )
        return Unavailable(f"{self.name} cannot serve now ({said.name()}: {said.str():.120}): check the brokers")

    def _wrong_password(self) -> BadSetting:
        return BadSetting(f"{self.name} refuses this user or password: correct it in {self.setting}")

    def silent(self, within_s: float = ANSWER_S) -> Unavailable:
        return Unavailable(
            f"{self.name} did not answer within {within_s:g} s: check that Kafka runs there, is not busy, and wants no "
            f"password or TLS that {self.setting} does not give"
        )

    def unreachable(self) -> Unavailable:
        return Unavailable(
            f"{self.name} cannot be reached (nothing listens there): start Kafka there, or set {self.setting}"
        )

    def _listens(self) -> bool:
        """Whether any of the hosts takes a connection."""
        for place in self.hosts:
            try:
                with socket.create_connection(place, timeout=_PROBE_S):
                    return True
            except TimeoutError:
                return True
            except OSError:
                continue
        return False


_COMMON: dict[str, Any] = {
    "client.id": "artery",
    "log_level": 0,
    "socket.timeout.ms": 3_000,
    "socket.connection.setup.timeout.ms": 2_000,
    "socket.keepalive.enable": True,
    "socket.nagle.disable": True,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 500,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 30_000,
    "topic.metadata.propagation.max.ms": 1_000,
}


def code_of(error: Exception) -> Any:
    """The driver's own error inside an exception; None if there is none."""
    if isinstance(error, KafkaException) and error.args and isinstance(error.args[0], KafkaError):
        return error.args[0]
    return None


def is_one_of(error: Exception, codes: tuple[int, ...]) -> bool:
    said = code_of(error)
    return said is not None and said.code() in codes


def is_away(error: Exception) -> bool:
    """Whether this says that nobody answers."""
    return isinstance(error, TimeoutError) or is_one_of(error, _AWAY)


def server_of(url: str, setting: str) -> Server:
    """`kafka://user:password@host:9092,host:9092?…` → where that is, or `BadSetting`.

    No part of an address is ever repeated to people: where a password is not escaped, it may hold some of that.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise BadSetting(f"{setting} is not an address: write {_FORM}") from None
    account, _, places = parts.netloc.rpartition("@")
    hosts = tuple(_host(place, setting) for place in places.split(","))
    if parts.scheme != "kafka" or parts.path.strip("/") or parts.fragment:
        raise BadSetting(f"{setting} names no Kafka server: write {_FORM}")
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    if set(given) - set(_OPTIONS):
        raise BadSetting(f"{setting} takes nothing but {', '.join(_OPTIONS)} after a question mark: write {_FORM}")
    options = {_OPTIONS[name]: value for name, value in given.items() if _OPTIONS[name]}
    tls = given.get("tls", "off")
    if tls not in ("on", "off"):
        raise BadSetting(f"{setting} says tls, but neither on nor off: write tls=on or tls=off")
    if account:
        user, _, password = account.partition(":")
        options |= {"sasl.username": unquote(user), "sasl.password": unquote(password)}
        options.setdefault("sasl.mechanism", "PLAIN")
    options["security.protocol"] = ("sasl_" if account else "") + ("ssl" if tls == "on" else "plaintext")
    options["bootstrap.servers"] = ",".join(f"{host}:{port}" for host, port in hosts)
    copies = _replication(given, setting)
    return Server(f"Kafka at {options['bootstrap.servers']}", setting, hosts, options, copies, refusals=[])


def _host(place: str, setting: str) -> tuple[str, int]:
    found = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?", place, re.ASCII)
    if not found or not 0 < int(found[2] or _PORT) < 65_536:
        raise BadSetting(f"{setting} names no Kafka server: write {_FORM}")
    return found[1].strip("[]"), int(found[2] or _PORT)


def _replication(given: dict[str, str], setting: str) -> int:
    """How many brokers keep each entry; 0: three, or as many as there are."""
    text = given.get("replication", "0")
    if not re.fullmatch(r"[0-9]", text, re.ASCII):
        raise BadSetting(
            f"{setting} says replication, but no number: write how many brokers keep each entry, as replication=3"
        )
    return int(text)
