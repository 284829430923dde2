"""The wiring: the only room that knows every other one, and the supervisor that keeps them running."""
