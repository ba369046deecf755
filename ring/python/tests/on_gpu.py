"""Tensors that say they are on a GPU, without one: their memory is the host's, as it is for the stand-ins for libcuda and
libnccl. Of the stand-ins' streams only the default one is used."""

import contextlib
import ctypes
import os
import time

import torch

from gorun._calls import Lane

class OnGPU(torch.Tensor):
    is_cpu = False
    is_cuda = True
    device = torch.device("cuda:0")


def gpu(tensor):
    return tensor.as_subclass(OnGPU)


def cpu(tensor):
    return tensor.as_subclass(torch.Tensor)


class Stream(Lane):
    """The default stream; whoever follows waits for it, as the host computes here."""

    def __init__(self, ordinal):
        self.ordinal = ordinal
        self.stream = 0
        self.log = []
        self.used = []

    def begin(self, arrays):
        assert all(a.is_cuda for a in arrays), arrays
        self.used.extend(arrays)  # as record_stream has their memory stay
        self.log.append("begin")

    def mark(self):
        self.log.append("mark")
        return len(self.log)

    def passed(self, mark):
        assert self.log[mark - 1] == "mark"
        cuda = ctypes.CDLL(os.environ["RING_CUDA_LIB"])
        cuda.cuCtxPushCurrent_v2(ctypes.c_void_p(self.ordinal + 1))
        try:
            return cuda.cuStreamQuery(None) == 0
        finally:
            cuda.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    def follow(self, mark):
        self.log.append("follow")
        while not self.passed(mark):
            time.sleep(0.0001)

    def inside(self):
        self.follow(self.mark())
        return contextlib.nullcontext()

    def future(self, value):
        future = torch.futures.Future()
        with self.inside():
            future.set_result(value)
        return future
