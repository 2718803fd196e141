"""Legal programs and inputs made at random."""
