"""Campaigns: seeded, resumable runs over generated cases, their stores and reports."""
