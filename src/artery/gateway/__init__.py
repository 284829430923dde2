"""HTTP and `/v1/stream`: keys, sessions, fan-out, history and the page."""
