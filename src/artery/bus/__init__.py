"""The durable log in the middle: streams, positions, groups, dead letters."""
