"""Rank 2 waits for a lock for ever, the others for rank 2 in an allreduce."""

import threading

import numpy as np

import gorun.numpy as hvd


def blocked(lock):
    lock.acquire()
    lock.acquire()


hvd.init()
hvd.allreduce(np.ones(4), name="all")
if hvd.rank() == 2:
    blocked(threading.Lock())
hvd.allreduce(np.ones(4), name="late")
