"""Python's faulthandler beside libring.so: it prints its trace, and the signal stays what it was."""

import ctypes
import faulthandler
import sys

library, when = sys.argv[1:]
if when == "before":
    faulthandler.enable()
ring = ctypes.CDLL(library)
comm = ctypes.c_uint64()
assert ring.ring_init(ctypes.byref(comm), None) == 0
assert ring.ring_barrier(comm) == 0
if when == "after":
    faulthandler.enable()


def crash():
    ctypes.string_at(8)


crash()
