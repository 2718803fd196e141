"""Programs, their types and element types: frozen data that knows nobody."""

from .convolution import *
from .dtypes import *
from .enums import *
from .languages import *
from .local_types import *
from .modes import *
from .program import *
from .types import *
