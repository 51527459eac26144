"""Countdown: combine the given numbers, each exactly once, to reach the target."""
