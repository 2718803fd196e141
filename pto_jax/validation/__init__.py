"""Programs before and after compiler passes: comparison, and the instruction where they diverge."""
