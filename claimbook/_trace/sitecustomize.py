"""Notes each function of a package that this process calls, once, in the file CLAIMBOOK_FOOTPRINT.

Python imports it at its start from a folder on PYTHONPATH: `net.py` puts this one there. The
package is the folder, or the file, CLAIMBOOK_PACKAGE. A line is the name of a module, by its path
below the package, and that of the function or method; what is defined inside counts as that.
"""

import os
import sys
import threading
from pathlib import PurePath

seen = set()
package = PurePath(os.environ["CLAIMBOOK_PACKAGE"])
notes = open(os.environ["CLAIMBOOK_FOOTPRINT"], "a", encoding="utf-8")  # noqa: SIM115


def note(frame, event, argument):
    code = frame.f_code
    if code not in seen:
        seen.add(code)
        path = PurePath(code.co_filename)
        if path.is_relative_to(package):
            below = path.with_suffix("").relative_to(package.with_suffix("")).parts
            below = below[:-1] if below[-1:] == ("__init__",) else below
            module = ".".join(below) or package.stem
            print(module, code.co_qualname.partition(".<locals>")[0], file=notes, flush=True)


threading.settrace(note)
sys.settrace(note)
