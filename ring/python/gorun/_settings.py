"""Settings of queues from the environment variables of gorun and horovodrun."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional

from . import errors

MOST_NAMES = 1 << 20
NEVER_MS = 365 * 24 * 3600 * 1000


class Settings(NamedTuple):
    """Options of queues; -1 is the library's own default."""

    fusion_bytes: int = -1
    cache_names: int = -1
    stall_ms: int = 0
    timeline: Optional[str] = None
    mark_cycles: bool = False


def settings(environment: Mapping[str, str]) -> Settings:
    """The settings in these variables. Raises InvalidError if one is not a number."""

    def number(name: str, default: float) -> float:
        text = environment.get(name, "").strip()
        try:
            return float(text) if text else default
        except ValueError:
            raise errors.InvalidError("gorun: %s is %r, want a number" % (name, text)) from None

    cache = int(number("HOROVOD_CACHE_CAPACITY", -1))
    stall = number("HOROVOD_STALL_CHECK_TIME_SECONDS", 0)
    never = environment.get("HOROVOD_STALL_CHECK_DISABLE", "0") not in ("", "0")
    path = environment.get("HOROVOD_TIMELINE") or None
    return Settings(
        fusion_bytes=int(number("HOROVOD_FUSION_THRESHOLD", -1)),
        cache_names=min(cache, MOST_NAMES),
        stall_ms=NEVER_MS if never else int(stall * 1000),
        timeline=None if path == "DYNAMIC" else path,
        mark_cycles=environment.get("HOROVOD_TIMELINE_MARK_CYCLES", "0") not in ("", "0"),
    )
