"""What the environment of a Spark in tests has more than a user's."""

QUICK = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
"""A Java that lives for seconds or minutes takes up to half as much of the processor if it never optimises what it has
compiled."""
