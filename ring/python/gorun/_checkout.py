"""Files that make build has left in a checkout of gorun, of which this package is the folder ring/python."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Iterable, List, Optional

_ROOT = 3  # folders between this package's and the checkout's
_MODULE = "module github.com/gorun/gorun\n"
_LINKS = 40  # on a path, at most


def find(name: str) -> Optional[Path]:
    """A file of the checkout, or None if this is none, it has no such file, or others than this user and root could have made or changed it."""
    here = Path(__file__).resolve()
    if len(here.parents) <= _ROOT:
        return None
    root = here.parents[_ROOT]
    if here.parent != root / "ring" / "python" / "gorun":
        return None
    try:
        own = safe(root / "go.mod") and (root / "go.mod").read_text().startswith(_MODULE) and safe(root / name)
    except (OSError, ValueError):
        return None
    return root / name if own else None


def safe(path: Path) -> bool:
    """Whether only this user and root can change a file: the rule of gorun's package trust. A file that is missing is an OSError."""
    at = "/"
    rest = _words(str(path))
    links = 0
    while True:
        info = os.lstat(at)
        if info.st_uid not in (0, os.geteuid()) or _foreign(info.st_dev):
            return False
        if stat.S_ISLNK(info.st_mode):
            links += 1
            target = os.readlink(at)
            rest = _words(target) + rest
            at = "/" if os.path.isabs(target) else os.path.dirname(at)
            if links > _LINKS:
                return False
            continue
        if not _private(at, info):
            return False
        if not rest:
            return True
        at = os.path.normpath(os.path.join(at, rest.pop(0)))  # at has no links, so .. is above it


def _words(path: str) -> List[str]:
    return [word for word in path.split("/") if word]


def _private(path: str, info: os.stat_result) -> bool:
    """Whether others cannot write to a file or folder that is no link. A group may whose number is the owner's, which is the owner's alone."""
    if stat.S_ISDIR(info.st_mode) and info.st_mode & stat.S_ISVTX:
        return True
    if not info.st_mode & stat.S_IWGRP:
        return not info.st_mode & stat.S_IWOTH
    return not info.st_mode & stat.S_IWOTH and info.st_gid == info.st_uid and not _has_list(path)


def _has_list(path: str) -> bool:
    """Whether an access control list lets others in."""
    try:
        return bool(os.getxattr(path, "system.posix_acl_access"))
    except (AttributeError, OSError):  # none, or a system without lists
        return False


def _foreign(device: int) -> bool:
    """Whether a file system is one that another user serves."""
    try:
        with open("/proc/self/mountinfo", "rb") as mounts:
            return _served_by_others(mounts, b"%d:%d" % (os.major(device), os.minor(device)))
    except OSError:
        return False


def _served_by_others(mounts: Iterable[bytes], device: bytes) -> bool:
    """Whether a line of /proc/self/mountinfo says so of a device: a file system in user space (FUSE) shows any owner, and a user gives it any name."""
    for line in mounts:
        words, _, system = line.rstrip(b"\n").partition(b" - ")
        if words.split(b" ")[2] != device or not system.startswith(b"fuse"):
            continue
        options = system.split(b" ")[-1].split(b",")  # of the kernel: those before are what the server calls itself
        if not {b"user_id=0", b"user_id=%d" % os.geteuid()} & set(options):
            return True
    return False
