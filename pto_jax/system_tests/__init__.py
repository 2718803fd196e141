"""System tests of the assembler, executed unchanged: kernels, inputs, their own comparison."""
