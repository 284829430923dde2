"""Iceberg tables, defined once; reads for everyone, without a JVM."""
