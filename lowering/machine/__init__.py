"""The JAX executor: memory, control flow, launches, planning."""
