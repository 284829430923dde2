"""Every limit of `/v1/stream` and of the HTTP side, in one place."""

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one connection, and all of them together, may take."""

    flush_events: int = 128
    flush_bytes: int = 64 * 1024
    flush_s: float = 0.004
    queue_events: int = 256
    queue_bytes: int = 1024 * 1024
    control_frames: int = 64
    subscriptions: int = 1_000
    types: int = 64
    inbound_bytes: int = 64 * 1024
    frames_per_s: float = 20.0
    frames_burst: float = 60.0
    early_frames: int = 64
    early_bytes: int = 64 * 1024
    ping_s: float = 20.0
    idle_s: float = 60.0
    verify_s: float = 10.0
    unverified: int = 200
    close_s: float = 5.0
    restart_spread_s: float = 2.0
    replay_bytes: int = 64 * 1024 * 1024
    held_bytes: int = 64 * 1024 * 1024
    replays: int = 8
    replay_pause_bytes: int = 256 * 1024
    replay_bytes_per_s: float = 128 * 1024 * 1024
    recheck_s: float = 1.0
    recheck_all_s: float = 30.0


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one HTTP request may take."""

    head_bytes: int = 64 * 1024
    head_s: float = 10.0
    linger_s: float = 1.0
    body_bytes: int = 64 * 1024
    request_s: float = 60.0
    rows: int = 5_000


LIMITS = Limits()
HTTP = HttpLimits()
