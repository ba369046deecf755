"""Puts what make build has made into the wheel, and says on which systems it runs."""

import platform
import re
from pathlib import Path
from typing import Any, Dict

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The programs become commands as they are: a launcher should not wait for Python to start.
PROGRAMS = ("gorun", "gorun-gpu", "gorun-bench", "gorun-ompi4.so")
LIBRARY = ("libring.so", "ring.h")


def glibc(files: "list[Path]") -> "tuple[int, int]":
    """The oldest version of the C library that has all that the files want of it."""
    found = {(2, 17)}  # the oldest that such wheels are made for
    for file in files:
        found.update((int(major), int(minor)) for major, minor in re.findall(rb"\0GLIBC_(\d+)\.(\d+)", file.read_bytes()))
    return max(found)


class Hook(BuildHookInterface):  # type: ignore[misc]
    """Called by hatchling for each build."""

    def initialize(self, version: str, build_data: Dict[str, Any]) -> None:
        root = Path(self.root).resolve().parents[1]
        programs = [root / "bin" / name for name in PROGRAMS]
        library = [root / "lib" / name for name in LIBRARY]
        lacking = [str(file) for file in programs + library if not file.exists()]
        if lacking:
            raise SystemExit("the wheel lacks %s: run make build, with a C compiler" % ", ".join(lacking))
        build_data["shared_scripts"] = {str(file): file.name for file in programs}
        build_data["force_include"] = {str(file): "gorun/_native/" + file.name for file in library}
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-manylinux_%d_%d_%s" % (*glibc(programs + library), platform.machine())
