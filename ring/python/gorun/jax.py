"""JAX under gorun: ``import gorun.jax``, and then ``jax.distributed.initialize()`` needs no arguments."""

from __future__ import annotations

import os
from typing import Optional

from jax._src.clusters.cluster import ClusterEnv


class Cluster(ClusterEnv):  # type: ignore[misc]  # JAX finds its subclasses
    """The ranks of a job, as JAX asks for them."""

    name = "gorun"

    @classmethod
    def is_env_present(cls) -> bool:
        return "GORUN_RANK" in os.environ

    @classmethod
    def get_coordinator_address(cls, timeout_secs: Optional[int] = None, override_coordinator_port: Optional[str] = None) -> str:
        host = os.environ["MASTER_ADDR"]
        return "%s:%s" % ("[%s]" % host if ":" in host else host, override_coordinator_port or os.environ["MASTER_PORT"])

    @classmethod
    def get_process_count(cls) -> int:
        return int(os.environ["WORLD_SIZE"])

    @classmethod
    def get_process_id(cls) -> int:
        return int(os.environ["RANK"])

    @classmethod
    def get_local_process_id(cls) -> Optional[int]:
        """The GPU of this rank among those that it sees; None, which is all, if the host has one rank or gorun has assigned them."""
        rank, ranks = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if ranks == 1 or (visible is not None and len(visible.split(",")) < ranks):
            return None
        return rank


# JAX takes the first environment that is present, and a Slurm allocation is one: its tasks are not the ranks.
ClusterEnv._cluster_types.remove(Cluster)
ClusterEnv._cluster_types.insert(0, Cluster)
