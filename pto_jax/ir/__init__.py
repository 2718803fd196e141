"""Programs, their types and element types: frozen data that knows nobody."""

from .types import *
from .dtypes import *
from .enums import *
from .program import *
from .types import *
from .enums import *
from .program import *
from .types import *
