"""Keeps torch.compile away from the functions of this package."""

from __future__ import annotations

import inspect
from types import CodeType, ModuleType
from typing import Any, Callable, Optional

import torch


def leave_alone(*modules: ModuleType) -> None:
    """Makes Dynamo run the functions of modules as they are. Compiled code calls them, also through C++, and it would trace and compile them."""
    skip = _skip()
    if skip is None:
        return
    for module in modules:
        for _, thing in inspect.getmembers(module):
            if getattr(thing, "__module__", None) != module.__name__:
                continue
            functions = [f for _, f in inspect.getmembers(thing)] if inspect.isclass(thing) else [thing]
            for function in functions:
                if inspect.isfunction(function) and function.__module__ == module.__name__:
                    skip(function.__code__)


def _skip() -> Optional[Callable[[CodeType], None]]:
    """What torch._dynamo has for this, without the second that importing it takes."""
    frames: Any = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
    if hasattr(frames, "set_code_exec_strategy"):
        never = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)
        return lambda code: frames.set_code_exec_strategy(code, never)  # type: ignore[no-any-return]
    return getattr(frames, "skip_code", None)  # from PyTorch 2.1
