"""Memory that other processes of this host can map, and that stays while one of them does."""

from __future__ import annotations

import fcntl
import mmap
import os
import stat
import weakref
from typing import List, Optional, Sequence

import torch

HEAD = 24  # bytes at the beginning of a part that say what it is


class Memory:
    """Bytes in a file without a name."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.fd = os.memfd_create("gorun-copy", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        weakref.finalize(self, os.close, self.fd)
        os.ftruncate(self.fd, size)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self.data = _mapped(self.fd, size)
        self.starts: List[int] = [0]

    def cut(self, sizes: Sequence[int]) -> List[torch.Tensor]:
        """Cuts it into parts."""
        self.starts = [sum(sizes[:i]) for i in range(len(sizes))]
        return list(self.data.split(list(sizes))) if sizes else []

    def clear(self) -> None:
        """Zeroes the heads of all parts, before their bytes change."""
        for at in self.starts:
            self.data[at : at + HEAD] = 0


def attach(pid: int, fd: int, size: int) -> Optional[torch.Tensor]:
    """The memory of another process, or None if it cannot be mapped. It is opened only if it is memory of this user that stays."""
    try:
        found = os.open("/proc/%d/fd/%d" % (pid, fd), os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return None
    opened = -1
    try:
        info = os.fstat(found)
        if not stat.S_ISREG(info.st_mode) or info.st_nlink > 0 or info.st_size != size or info.st_uid != os.geteuid():
            return None
        opened = os.open("/proc/self/fd/%d" % found, os.O_RDWR | os.O_CLOEXEC)
        return _mapped(opened, size) if fcntl.fcntl(opened, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK else None
    except (OSError, ValueError):
        return None
    finally:
        os.close(found)
        if opened >= 0:
            os.close(opened)


def _mapped(fd: int, size: int) -> torch.Tensor:
    if size == 0:
        return torch.empty(0, dtype=torch.uint8)
    return torch.frombuffer(mmap.mmap(fd, size), dtype=torch.uint8)
