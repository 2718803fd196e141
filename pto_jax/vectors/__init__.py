"""Recorded cases: their files, comparison, conformance, exclusions."""
