"""Programs, their types and element types as frozen data."""

from .dtypes import *
from .enums import *
from .program import *
from .registers import *
from .types import *
