"""The fast path: pub/sub for what is live, and the lock that elects one leader a feed."""
