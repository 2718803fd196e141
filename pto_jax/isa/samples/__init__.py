"""Legal sample operations that declarations bring."""
