"""Programs, their types and element types: frozen data that knows nobody."""
