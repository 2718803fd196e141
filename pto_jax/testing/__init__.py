"""Checking devices: every instruction against the reference interpreter."""
