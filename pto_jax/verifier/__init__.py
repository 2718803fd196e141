"""The verifier: whole programs against a hardware profile."""
