"""Legal sample operations from declarations."""
