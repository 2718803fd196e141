"""Files: reading is bounded, and writing is atomic.

Reading. A text may have :data:`MAX_TEXT` bytes, the arrays of an ``.npz`` file :data:`MAX_ARRAYS`; the
environment variable ``PTO_JAX_MAX_FILE_BYTES`` sets another limit for both. Nothing is executed or
unpickled, and no memory is taken that the file does not fill.

Writing. A file is written under another name in the same folder and renamed when it is complete, so that a
full disk or a crash leaves the previous file. Where there is a previous file, the new content is flushed to
the disk (fsync) before the rename; new files and the folder itself are left to the system. Links are
followed and permissions kept. What is no regular file (devices, pipes, the standard output as ``-`` or
``/dev/stdout``) is written to directly.

Every failure is a FileError of one line that names the file.

>>> import tempfile
>>> folder = tempfile.TemporaryDirectory()
>>> write_text(f"{folder.name}/a.json", '{"n": 1}')
>>> read_json(f"{folder.name}/a.json")
{'n': 1}
>>> folder.cleanup()
"""

from .arrays import MAX_ARRAYS as MAX_ARRAYS, load_arrays as load_arrays, save_arrays as save_arrays
from .read import (
    MAX_TEXT as MAX_TEXT,
    limit as limit,
    parse_json as parse_json,
    read_bytes as read_bytes,
    read_json as read_json,
    read_text as read_text,
)
from .write import (
    folder_replacing as folder_replacing,
    replacing as replacing,
    write_bytes as write_bytes,
    write_text as write_text,
)
