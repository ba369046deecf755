"""The version of the distribution: that of the last tag, and what came after it."""

import os
import re
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent


def git(*words: str) -> str:
    """What a git command prints of this checkout, or "" if it fails. A repository of a folder above may be another user's."""
    env = {**os.environ, "GIT_CEILING_DIRECTORIES": os.pathsep.join(map(str, list(HERE.parents)[2:]))}
    try:
        return subprocess.run(["git", *words], cwd=HERE, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout.decode().strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def number(described: str) -> str:
    """A version in Python's form of what git describe --long printed, v1.2.0-rc1-5-gabcdef0: 1.2.0rc1.post5+gabcdef0; "" if it is no version."""
    parts = re.fullmatch(r"v(\d+(?:\.\d+)*)(?:-?(a|alpha|b|beta|rc)\.?(\d+))?-(\d+)-(g[0-9a-f]+)", described)
    if not parts:
        return ""
    release, kind, count, since, commit = parts.groups()
    pre = {"alpha": "a", "beta": "b"}.get(kind, kind) + count if kind else ""
    return release + pre + (".post%s+%s" % (since, commit) if since != "0" else "")


def version() -> str:
    """The version of this checkout, or of the sdist that this file is in."""
    info = HERE / "PKG-INFO"
    if info.exists():
        found = re.search(r"^Version: (\S+)$", info.read_text(), re.MULTILINE)
        if found:
            return found[1]
    tagged = number(git("describe", "--tags", "--long", "--match", "v[0-9]*"))
    when, commit = (git("log", "-1", "--format=%cd %h", "--date=format-local:%Y%m%d%H%M") or "0 unknown").split()
    return tagged or "0.0.0.dev%s+g%s" % (when, commit)
