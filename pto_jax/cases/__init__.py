"""Cases: programs with inputs, their executors, and the comparison of results."""
