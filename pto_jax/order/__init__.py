"""Order: which operations of a program happen before others, and what goes wrong where nothing says so."""

from .changes import Changes as Changes, Edge as Edge, compare as compare
from .contents import is_window as is_window, lost_values as lost_values
from .findings import Finding as Finding, Place as Place, event_numbers as event_numbers, hangs as hangs
from .judge import judge as judge, judged_program as judged_program, listing as listing
from .numbers import ASSUMED as ASSUMED
from .walk import LIMIT as LIMIT, LISTED as LISTED, Listed as Listed
