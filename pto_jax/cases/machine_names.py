"""Names of machines that are command lines and modules: to name one is to ask for its execution."""

DEVICES = ("dut", "dut-server", "python")


def is_device(text: str) -> bool:
    """Whether a machine is a command line or a module.

    Such a name from a file may be passed to :func:`pto_jax.devices.machines.machine` only if the user trusts
    the file.

    >>> is_device("dut:sim {program}"), is_device("jit:a5")
    (True, False)
    """
    return text.partition(":")[0] in DEVICES


def device_options(reference: str, tested: str) -> list[str]:
    """The options of ``pto-jax replay`` that name those machines which it executes only when they are named.

    >>> device_options("oracle", "dut:sim {program}")
    ['--tested', 'dut:sim {program}']
    """
    named = (("--against", reference), ("--tested", tested))
    return [word for pair in named if is_device(pair[1]) for word in pair]
