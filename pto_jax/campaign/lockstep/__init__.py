"""Campaigns in lockstep."""
