"""ZeroMQ: the well-known place where clients, ingestors and processors meet."""
