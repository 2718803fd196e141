"""Campaigns: cases in blocks, worker processes, one store that survives being killed."""
