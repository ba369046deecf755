"""The distribution is gorun-launcher, since PyPI's gorun is another project with a module of the same name: they cannot share an environment."""

from __future__ import annotations

import os
import re

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def refuse(folder: str = _HERE) -> None:
    """Raises an ImportError if folder, where this package is, also has a distribution with the name gorun."""
    try:
        names = os.listdir(folder)
    except OSError:
        return  # a zip file
    for name in names:
        found = re.match(r"gorun-([^-]+?)(-py[0-9.]+)?\.(dist-info|egg-info|egg)$", name)
        if found:
            raise ImportError(
                "gorun: the distribution gorun %s is also installed in %s: it is another project, with a module of the same name; "
                "type: pip uninstall gorun; pip install --force-reinstall gorun-launcher" % (found[1], folder)
            )
