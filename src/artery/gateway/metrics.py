"""What the gateway counts."""

from artery.telemetry import counter, gauge, histogram

SESSIONS = gauge("gateway_sessions", "Connected WebSocket clients.", "state")
FRAMES_IN = counter("gateway_frames_in", "Frames that clients sent.")
CONTROL_OUT = counter("gateway_control_frames_out", "Answers and errors sent to clients.")
DELIVERED = counter("gateway_events_delivered", "Events handed to sessions, each session counted.")
EVENTS = counter("gateway_events", "Events that reached the hub, by where they came from.", "source")
SKIPPED = counter("gateway_events_skipped", "Events that were left out, by reason.", "reason")
GAPS = counter("gateway_gaps", "Holes that clients were told of, by reason.", "reason")
CONFLATED = counter("gateway_conflated", "Snapshots replaced by newer ones for slow clients.")
CLOSED = counter("gateway_closed", "Connections that the gateway closed, by code.", "code")
AUTH_FAILURES = counter("gateway_auth_failures", "Requests and connections with a missing or wrong key.", "where")
REFUSED = counter("gateway_handshakes_refused", "Handshakes refused, by reason.", "reason")
REPLAYED = counter("gateway_replayed", "Events replayed from the bus and the lake.")
HTTP_REQUESTS = counter("gateway_http_requests", "HTTP requests by route and status.", "route", "status")
HTTP_SECONDS = histogram(
    "gateway_http_seconds",
    "Time to answer an HTTP request.",
    "route",
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
)
DEMAND_REFUSED = counter("gateway_demand_refused", "Subscriptions refused: too many markets are followed.", "whose")
RECENT_ROWS = gauge("gateway_recent_rows", "Candles kept in memory because the lake does not have them yet.")
