"""The machine that executes programs in JAX: memory, control flow, launches, planning."""
