"""Percepts from outside: photographs and recorded interactions."""
