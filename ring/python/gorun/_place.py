"""Where the program is, for reports of stalls."""

from __future__ import annotations

import os
import sys
import threading
from types import FrameType
from typing import List, Optional

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_STANDARD = os.path.dirname(os.path.abspath(threading.__file__)) + os.sep


def place() -> str:
    """The program's line that this thread executes, as file:line, or that of the main thread if this one is a library's; "" if none."""
    found = _line(sys._getframe(1))
    if not found and threading.current_thread() is not threading.main_thread():
        found = _line(sys._current_frames().get(threading.main_thread().ident or 0))
    return found


def _line(frame: Optional[FrameType]) -> str:
    libraries = _libraries()
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith("<frozen") and not any(path.startswith(folder) for folder in libraries):
            return "%s:%d" % (_short(path), frame.f_lineno)
        frame = frame.f_back
    return ""


def _libraries() -> List[str]:
    folders = [_HERE, _STANDARD]  # with site-packages, in an environment whose standard library is its own
    for name in ("torch", "numpy"):
        found = getattr(sys.modules.get(name), "__path__", None)
        if found:
            folders.append(os.path.abspath(found[0]) + os.sep)
    return folders


def _short(path: str) -> str:
    try:
        near = os.path.relpath(path)
    except (OSError, ValueError):
        return path
    return path if near.startswith(os.pardir) else near
