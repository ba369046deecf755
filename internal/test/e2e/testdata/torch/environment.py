"""How frameworks on top of PyTorch tell who started them. What they look at is in their sources:
Lightning 1.6 to 2.5 in plugins/environments, Accelerate in state.py, DeepSpeed in comm/comm.py."""

import os

have = os.environ


def lightning():
    """The first that says yes is used; each but the last means that processes are there already."""
    if "TORCHELASTIC_RUN_ID" in have and {"RANK", "GROUP_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"} <= set(have):
        return "torchelastic"
    if "SLURM_NTASKS" in have and have.get("SLURM_JOB_NAME") not in ("bash", "interactive") and "SLURM_PROCID" in have:
        return "slurm"
    return "lightning"


def first(names):
    return int(next((have[n] for n in names if n in have), -1))


accelerate = (
    first(["RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK"]),
    first(["WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"]),
    first(["LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK"]),
)
deepspeed = all(n in have for n in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"))
node = f"{have['GROUP_RANK']}/{have['GROUP_WORLD_SIZE']}"
role = f"{have['ROLE_NAME']} {have['ROLE_RANK']}/{have['ROLE_WORLD_SIZE']}"
print(lightning(), *accelerate, "deepspeed" if deepspeed else "-", node, role, have["TORCHELASTIC_USE_AGENT_STORE"], flush=True)
