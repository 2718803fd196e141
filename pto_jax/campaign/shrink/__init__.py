"""Failures made small, grouped by cause, kept as folders and replayed."""
