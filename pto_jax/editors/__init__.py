"""What editors need of PTO text: highlighting, and a language server."""
