"""Programs, their types and element types: frozen data that knows nobody."""

from .dtypes import *
from .enums import *
from .program import *
from .types import *
