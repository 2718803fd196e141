"""Campaigns of random programs: blocks of cases, worker processes, one store that survives crashes."""
