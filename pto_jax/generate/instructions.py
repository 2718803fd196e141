"""Instructions by name: a choice of simple ones, and those that need something of their own to be generated.

What is generated of an instruction is a choice of this package, no fact about the instruction; other names
stand where generators build the operations.
"""

# Instructions by name: which ones programs have is a choice of the generator.
#: Simple instructions, which are most of those inside loops, branches and calls.
SIMPLE = frozenset(
    "tadd tsub tmax tadds tmuls trelu tmov tand tcvt trowsum tcolexpand tload tstore textract tinsert".split()
)
#: Executable instructions that need more than operands of their own: output on the terminal, a handle
#: (:mod:`.handles`), a position inside a tile.
APART = frozenset({"tprint", "talias", "tsetval"})
#: Instructions with a syntax of their own that need nothing but operands.
SETTINGS = frozenset(
    "set_quant_scalar set_quant_vector setfmatrix set_img2col_rpt set_img2col_padding set_ffts syncall "
    "tget_scale_addr".split()
)
#: Those with a form for each of many pairs of types.
MANY_FORMS = ("tcvt",)
