"""Puts what make native has made into the wheel and says on which systems it runs; puts what makes it into the sdist."""

import importlib.util
import os
import re
import struct
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Tuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The programs become commands as they are: a launcher should not wait for Python to start.
PROGRAMS = ("gorun", "gorun-gpu", "gorun-bench", "gorun-ompi4.so")
LIBRARY = ("libring.so", "ring.h")
MACHINES = {62: "x86_64", 183: "aarch64"}  # the numbers of ELF
SOURCES = ("cmd", "gpu", "hostfile", "internal", "launcher", "ring", "ssh", "go.mod", "go.sum", "Makefile", "LICENSE")


def checkout(here: Path, parts: Tuple[str, ...] = ()) -> Path:
    """The checkout of which here is the folder ring/python, with these folders. Elsewhere a folder above by chance may be anybody's, as
    /tmp is."""
    rule = importlib.util.spec_from_file_location("_checkout", here / "gorun" / "_checkout.py")
    assert rule and rule.loader
    module = importlib.util.module_from_spec(rule)
    rule.loader.exec_module(module)
    root = module.root()
    folders = [] if root is None else [root / name for name in parts if (root / name).exists()]
    unsafe = [str(file) for folder in folders for file in (folder, *folder.iterdir()) if not file.exists() or not module.safe(file)]
    if root is None or unsafe:
        raise SystemExit(
            "%s: others than you and root could have changed it, or it is no checkout of gorun: "
            "chmod go-w them, or set GORUN_BUILT to the folder in which make build has left what a wheel needs" % ", ".join(unsafe or [str(here.parents[1])])
        )
    return root


def glibc(files: List[Path]) -> Tuple[int, int]:
    """The oldest version of the C library that has all that the files want of it."""
    found = {(2, 17)}  # the oldest that such wheels are made for
    for file in files:
        found.update((int(major), int(minor)) for major, minor in re.findall(rb"\0GLIBC_(\d+)\.(\d+)", file.read_bytes()))
    return max(found)


def machine(file: Path) -> str:
    """The processor that a library is made for."""
    return MACHINES[struct.unpack_from("<H", file.read_bytes(), 18)[0]]


class Hook(BuildHookInterface):  # type: ignore[misc]
    """Called by hatchling for each build."""

    def initialize(self, version: str, build_data: Dict[str, Any]) -> None:
        here = Path(self.root).resolve()
        if self.target_name == "sdist":
            self.sources(checkout(here), build_data)
        elif (here / "source").exists():
            self.make(here / "source")
            self.wheel(here / "source", build_data)
        else:
            self.wheel(Path(os.environ.get("GORUN_BUILT") or checkout(here, ("bin", "lib"))), build_data)

    def sources(self, checkout: Path, build_data: Dict[str, Any]) -> None:
        """Adds the Go module, without its tests, as the folder source."""
        env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(checkout.parent)}  # in which others may have put a repository
        listed = subprocess.run(["git", "ls-files", "-z", *SOURCES], cwd=checkout, env=env, stdout=subprocess.PIPE, check=True).stdout.decode()
        for name in listed.split("\0"):
            aside = name.startswith(("ring/python/", "internal/test/")) or "/testdata/" in name or name.endswith("_test.go")
            if name and not aside:
                build_data["force_include"][str(checkout / name)] = "source/" + name

    def make(self, source: Path) -> None:
        """Builds what the wheel needs in an unpacked sdist."""
        try:
            subprocess.run(["make", "native", "launcher"], cwd=source, check=True)
        except (OSError, subprocess.CalledProcessError) as e:
            raise SystemExit("building gorun: %s: it needs make, Go 1.26 and a C compiler; wheels for Linux need none of them" % e)

    def wheel(self, root: Path, build_data: Dict[str, Any]) -> None:
        programs = [root / "bin" / name for name in PROGRAMS]
        library = [root / "lib" / name for name in LIBRARY]
        lacking = [str(file) for file in programs + library if not file.exists()]
        if lacking:
            raise SystemExit("the wheel lacks %s: run make build, with a C compiler" % ", ".join(lacking))
        build_data["shared_scripts"] = {str(file): file.name for file in programs}
        # gorun for hosts with other processors, and helpers that not every build has.
        helpers = [root / "bin" / name for name in ("gorun-mpir", "gorun-pmix")]
        others = [*sorted((root / "bin").glob("gorun-linux-*.gz")), *(file for file in helpers if file.exists())]
        build_data["shared_data"] = {str(file): "lib/gorun/" + file.name for file in others}
        build_data["force_include"] = {str(file.resolve()): "gorun/_native/" + file.name for file in library}
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-manylinux_%d_%d_%s" % (*glibc(programs + library), machine(library[0]))
