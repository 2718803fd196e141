"""Checks of devices: every instruction against the reference interpreter."""
