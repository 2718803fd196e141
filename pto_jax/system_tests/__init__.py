"""System tests of the assembler, run as they are: kernels, generated inputs, their own comparison."""
