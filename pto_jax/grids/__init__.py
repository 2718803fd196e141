"""The check that a launch has the number of blocks that its program needs.

A program that selects its windows by the block number computes only a part of its result when it is launched
with too few blocks, without any error. The windows of every block are followed with the constants of the text
and, if the caller has them, the values of arguments. A launch of more blocks that would write further
elements of a declared view is the evidence. There is no evidence in programs without a block number, in loops
that stride by the number of blocks, in blocks that would write the same elements again, and in blocks whose
windows leave their views.
"""

from .judgement import (
    MAX_BLOCKS as MAX_BLOCKS,
    MAX_LAUNCH as MAX_LAUNCH,
    Facts as Facts,
    Judgement as Judgement,
    asks as asks,
    judge as judge,
    require_blocks as require_blocks,
)
