"""Runs horovod's own test_torch.py, whose path is given, against gorun.torch: the folder beside this file has its name."""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

# What is left out, and why.
LEFT_OUT = [
    "cuda", "gpu",  # need GPUs
    "large",  # tensors without end, a minute each
    "duplicate_name_error",  # submits a name twice and counts on horovod being slow; torch_errors.py has the like
    "state_no_grad",  # wants gradients of zeros that horovod leaves behind when it broadcasts an optimizer's state
    "test_no_named_parameters",  # convolutions of a gigabyte; torch_train.py has the like
]  # fmt: skip

words = " and ".join("not " + word for word in LEFT_OUT)
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", sys.argv[1], "-k", words]))
