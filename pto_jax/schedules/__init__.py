"""Legal orders of pipes: the check of a program's order, and executions that show what a race does."""

from .races import Mode as Mode, mode_of as mode_of, order_changes as order_changes, races as races
