"""The command line, ``pto-jax``."""
