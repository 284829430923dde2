"""Small shared state: keys, leases, demand, sessions, marks."""
