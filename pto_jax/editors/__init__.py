"""Support for editors: highlighting and a language server."""
