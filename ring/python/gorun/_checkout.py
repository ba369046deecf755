"""Files that make build has left in a checkout of gorun, of which this package is the folder ring/python."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Iterable, List, Optional

_ROOT = 3  # folders between this package's and the checkout's
_MODULE = "module github.com/gorun/gorun\n"
_LINKS = 40  # on a path, at most


def root() -> Optional[Path]:
    """The checkout, or None if this is none, or others than this user and root could have made or changed it."""
    here = Path(__file__).resolve()
    if len(here.parents) <= _ROOT:
        return None
    top = here.parents[_ROOT]
    if here.parent != top / "ring" / "python" / "gorun":
        return None
    try:
        own = safe(top / "go.mod") and (top / "go.mod").read_text().startswith(_MODULE)
    except (OSError, ValueError):
        return None
    return top if own else None


def find(name: str) -> Optional[Path]:
    """A file of the checkout, or None if it has no such file, or others could have made or changed it."""
    top = root()
    try:
        return top / name if top and safe(top / name) else None
    except (OSError, ValueError):
        return None


def safe(path: Path) -> bool:
    """Whether only this user and root can change a file: the rule of gorun's package trust. A file that is missing is an OSError."""
    at = "/"
    rest = _words(str(path))
    links = 0
    while True:
        info = _look(at)
        if info is None or info.st_uid not in (0, os.geteuid()):
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


def _look(path: str) -> Optional[os.stat_result]:
    """What is at a path, which may be a link, or None if another user serves its file system, who may never answer."""
    if not hasattr(os, "O_PATH"):  # macOS
        return os.lstat(path)
    found = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return None if foreign(found) else os.fstat(found)
    finally:
        os.close(found)


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


def foreign(descriptor: int) -> bool:
    """Whether another user serves the file system of an open file (FUSE), which shows any owner and content. It is open, so that
    nothing can be mounted or unmounted in between: a file system that is not mounted any more counts as theirs."""
    try:
        number = _mount(descriptor)
        with open("/proc/self/mountinfo", "rb") as mounts:
            theirs = _served_by_others(mounts, number)
        return number != _mount_of_the_top() if theirs is None else theirs
    except OSError:
        return False


def _mount(descriptor: int) -> bytes:
    """The number of the mount that an open file is on."""
    with open("/proc/self/fdinfo/%d" % descriptor, "rb") as about:
        for line in about:
            if line.startswith(b"mnt_id:"):
                return line.split()[1]
    return b""


def _mount_of_the_top() -> bytes:
    """The number of the mount that / is on, which is not in the list of a program in a chroot."""
    top = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _mount(top)
    finally:
        os.close(top)


def _served_by_others(mounts: Iterable[bytes], number: bytes) -> Optional[bool]:
    """Whether a line of /proc/self/mountinfo says so of a mount, None if it is not there. A user gives a file system any name."""
    for line in mounts:
        words, _, system = line.rstrip(b"\n").partition(b" - ")
        if words.split(b" ")[0] != number:
            continue
        options = system.split(b" ")[-1].split(b",")  # of the kernel: those before are what the server calls itself
        return system.startswith(b"fuse") and not {b"user_id=0", b"user_id=%d" % os.geteuid()} & set(options)
    return None
