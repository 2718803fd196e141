"""Whether a launch has the blocks that its program is written for.

A program that picks its windows by the number of the block computes a part of its result when it is
launched with too few blocks, and nothing else tells. What every block writes is followed with the constants
of the text (and, where a caller has them, the values of arguments); a launch of more blocks that would write
further elements of a declared view is the evidence. No evidence are programs that do not ask for the block's
number, loops that stride by the number of blocks, blocks that would write the same elements again, and
blocks whose windows leave their views.
"""

from .judgement import (
    MAX_BLOCKS as MAX_BLOCKS,
    Facts as Facts,
    Judgement as Judgement,
    asks as asks,
    judge as judge,
)
