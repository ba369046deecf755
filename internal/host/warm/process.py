"""A process as the agent would have started it."""

import ctypes
import os
import sys

from channel import HERE, place

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_MM = 35
PR_SET_MM_MAP = 14
PR_SET_NO_NEW_PRIVS = 38

libc = ctypes.CDLL(None, use_errno=True)


def set_death_signal(number):
    """Sets the signal that this process gets at the end of its parent."""
    libc.prctl(PR_SET_PDEATHSIG, number)


def settle(rank, channel, changed):
    """Makes this process what the agent would have started."""
    os.setsid()
    if rank.terminal:
        import fcntl
        import termios
        fcntl.ioctl(rank.files[0], termios.TIOCSCTTY, 0)
    channel.socket.detach()
    kept = os.dup(channel.descriptor)
    while kept < len(rank.files):
        kept = os.dup(kept)
    place(rank.files)
    for name in os.listdir(HERE):
        descriptor = int(name)
        if descriptor >= len(rank.files) and descriptor != kept:
            try:
                os.close(descriptor)
            except OSError:
                pass  # the one of the list
    channel.__init__(kept)
    os.chdir(rank.folder)
    os.sched_setaffinity(0, rank.cpus)
    if rank.score:
        with open("/proc/self/oom_score_adj", "wb") as score:
            score.write(rank.score)
    if rank.unprivileged:
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    name_process(os.path.basename(os.fsencode(rank.path)), rank.argv, rank.environ)
    libc.clearenv()
    os.environ._data.clear()
    for word in rank.environ:
        name, _, value = word.partition(b"=")
        os.environb[name] = value
    for name, value in changed.items():
        if value is None:
            os.environb.pop(name, None)
        else:
            os.environb[name] = value


def name_process(name, argv, environ):
    """Makes /proc show a name, arguments and variables of this process."""
    libc.prctl(PR_SET_NAME, ctypes.c_char_p(name))
    words = b"".join(word + b"\0" for word in argv)
    text = words + b"".join(word + b"\0" for word in environ)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    start = libc.mmap(None, len(text), 3, 0x22, -1, 0)  # private and anonymous, to read and write
    ctypes.memmove(start, text, len(text))
    with open("/proc/self/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    code, end, stack, data, data_end, heap = (int(fields[i]) for i in (23, 24, 25, 42, 43, 44))
    libc.sbrk.restype = ctypes.c_void_p
    addresses = [code, end, data, data_end, heap, libc.sbrk(0), stack, start, start + len(words), start + len(words),
                 start + len(text), 0, 0xffffffff << 32 if sys.byteorder == "little" else 0xffffffff]
    table = (ctypes.c_uint64 * len(addresses))(*addresses)
    return libc.prctl(PR_SET_MM, PR_SET_MM_MAP, ctypes.byref(table), ctypes.c_ulong(ctypes.sizeof(table)), 0) == 0
