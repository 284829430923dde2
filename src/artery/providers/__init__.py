"""Venues: pure parsing of what they say, one shared socket that stays connected, and a simulated venue."""
