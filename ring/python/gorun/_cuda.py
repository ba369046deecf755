"""PyTorch's CUDA streams. Only this module uses torch.cuda."""

from __future__ import annotations

from typing import Any, Sequence

import torch

from . import errors
from ._calls import Lane


class CudaLane(Lane):
    """A stream beside PyTorch's current one, so that computation continues while data moves."""

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal
        self.side = torch.cuda.Stream(device=ordinal)  # type: ignore[no-untyped-call]
        self.stream = int(self.side.cuda_stream)

    def begin(self, arrays: Sequence[Any]) -> None:
        if torch.cuda.is_current_stream_capturing():  # the lane would be drawn into the capture, and end the job
            raise errors.InvalidError("gorun: a collective cannot be captured in a CUDA graph: call it outside of torch.cuda.graph()")
        self.side.wait_stream(torch.cuda.current_stream(self.ordinal))
        for array in arrays:
            if array.is_cuda:
                array.record_stream(self.side)  # its memory is not given to others before the lane has come to it

    def mark(self) -> Any:
        return self.side.record_event()

    def inside(self) -> Any:
        """A context in which the lane is the current stream."""
        return torch.cuda.stream(self.side)

    def future(self, value: Any) -> "torch.futures.Future[Any]":
        """A finished future of the value. A stream that uses it waits for the lane."""
        future: "torch.futures.Future[Any]" = torch.futures.Future(devices=[torch.device("cuda", self.ordinal)])
        with self.inside():
            future.set_result(value)
        return future

    def passed(self, mark: Any) -> bool:
        return bool(mark.query())

    def follow(self, mark: Any) -> None:
        torch.cuda.current_stream(self.ordinal).wait_event(mark)
