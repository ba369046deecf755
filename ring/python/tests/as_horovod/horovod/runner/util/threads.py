"""What the helpers of horovod's tests want of horovod besides."""

import threading


def in_thread(target, args=(), name=None, daemon=True, silent=False):
    """Runs target in a thread."""
    thread = threading.Thread(target=target, args=args, name=name, daemon=daemon)
    thread.start()
    return thread
