"""Figures, each beside what a user would pick instead, in the same run: `make bench`."""
