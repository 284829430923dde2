"""The ZeroMQ protocol: envelope, type ids, topics and protobuf messages."""
