"""Rules between keys: each module checks one group of keys, `check_<group>(cfg)` -> one line for each problem."""
