"""The handwritten digits of examples/mnist: 1440 images to train with and 357 to test, of 8x8 pixels.

Files of the same names with the 28x28 images of MNIST go as well: give their folder.
"""

import gzip
from pathlib import Path

import numpy as np


def load(folder=None):
    """Two pairs of images, float32 of shape (n, 1, height, width) from 0 to 1, and labels, int64 of shape (n,)."""
    folder = Path(folder) if folder else Path(__file__).resolve().parent / "mnist" / "data"
    sets = []
    for name in ("train", "t10k"):
        images = _read(folder / f"{name}-images-idx3-ubyte.gz").astype(np.float32) / 255
        sets.append((images[:, np.newaxis], _read(folder / f"{name}-labels-idx1-ubyte.gz").astype(np.int64)))
    return sets


def _read(path):
    """The array of bytes in an IDX file: two zeros, the type, the number of dimensions, each as a big-endian word."""
    with gzip.open(path) as f:
        data = f.read()
    if data[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is not an IDX file of bytes")
    dimensions = data[3]
    shape = np.frombuffer(data, ">u4", dimensions, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape)
