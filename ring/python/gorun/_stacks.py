"""What ``gorun stacks`` reads of a rank: the stacks of its threads, written by faulthandler when a signal asks for them.

faulthandler works in signal context, so it also tells where a C extension spins with the interpreter's lock held. The
stacks go to memory that gorun finds by its name, with the signal's number, among the descriptors of this process; only
the user and root can read it there. Children that are forked answer too.
"""

from __future__ import annotations

import os
import signal


def offer() -> None:
    """Answers ``gorun stacks`` in ranks of gorun. Where that is impossible it does nothing."""
    if "GORUN_RANK" not in os.environ or not hasattr(os, "memfd_create"):
        return
    import faulthandler
    import fcntl

    number = signal.SIGRTMIN + 15
    try:
        if signal.getsignal(number) != signal.SIG_DFL:
            return  # the program's own
        memory = os.memfd_create(f"gorun-faults.{int(number)}")
        fcntl.fcntl(memory, fcntl.F_SETFL, os.O_APPEND)
        faulthandler.register(number, file=memory, all_threads=True)
    except (OSError, ValueError, RuntimeError):
        return
