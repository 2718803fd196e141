"""Facts about programs that follow from their text."""
