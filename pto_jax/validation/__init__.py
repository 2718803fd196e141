"""Programs before and after compiler passes: whole corpora compared, and the instruction where they part."""
