"""The decisions: pure functions over values, with no I/O, clock or randomness."""
