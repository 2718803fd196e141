"""Cases: programs with inputs, the machines that execute them and how their results are compared."""
