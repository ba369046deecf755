"""horovod.torch is gorun.torch."""

import sys

import gorun.torch

sys.modules[__name__] = gorun.torch
