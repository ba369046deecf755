"""Memory that other processes of this host can map, and that stays while one of them does."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import weakref
from typing import List, Optional, Sequence

import torch

HEAD = 24  # bytes at the beginning of a part that say what it is
NAME = "gorun-copy"


class Memory:
    """Bytes in a file without a name."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.fd = os.memfd_create(NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        weakref.finalize(self, os.close, self.fd)
        if size > 0:
            os.posix_fallocate(self.fd, 0, size)  # memory that is missing later would be a SIGBUS
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, _seals() | fcntl.F_SEAL_SEAL)
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
    """The memory of another process, or None if it cannot be mapped. As in ring/internal/shm, it is opened only if it is sealed memory of a
    process of this user: nothing else waits, and nobody takes it away."""
    try:
        with contextlib.ExitStack() as files:

            def opened(path: str, flags: int, folder: Optional[int] = None) -> int:
                number = os.open(path, flags | os.O_CLOEXEC, dir_fd=folder)
                files.callback(os.close, number)
                return number

            process = opened("/proc/%d" % pid, os.O_RDONLY | os.O_DIRECTORY)
            found = opened("fd/%d" % fd, os.O_PATH, process)
            if not _is_own(opened("status", os.O_RDONLY, process)) or not _is_memory(found, size):
                return None
            if not os.readlink("fd/%d" % fd, dir_fd=process).startswith("/memfd:" + NAME):
                return None
            memory = opened("/proc/self/fd/%d" % found, os.O_RDWR)
            if fcntl.fcntl(memory, fcntl.F_GET_SEALS) & _seals() == _seals():
                return _mapped(memory, size)
    except (OSError, ValueError):
        pass
    return None


def _seals() -> int:
    """What keeps the size of memory. Linux alone has them, and other systems import this module, too."""
    return fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


def _is_own(status: int) -> bool:
    """Says whether all users of a process are this one, by its /proc/PID/status."""
    with open(status, closefd=False) as lines:
        return any(line.split() == ["Uid:"] + [str(os.geteuid())] * 4 for line in lines)


def _is_memory(fd: int, size: int) -> bool:
    """Says whether a file is memory of this user, of which none is missing. All memory without a name is on one device of the kernel's."""
    info = os.fstat(fd)
    own = os.memfd_create(NAME, os.MFD_CLOEXEC)
    try:
        device = os.fstat(own).st_dev
    finally:
        os.close(own)
    return info.st_dev == device and info.st_uid == os.geteuid() and info.st_size == size and info.st_blocks * 512 >= size


def _mapped(fd: int, size: int) -> torch.Tensor:
    if size == 0:
        return torch.empty(0, dtype=torch.uint8)
    return torch.frombuffer(mmap.mmap(fd, size), dtype=torch.uint8)
