import json
import platform

found = {"python": platform.python_version()}
try:
    from importlib import metadata

    packages = {"torch": ["torch"], "numpy": ["numpy"], "nccl": ["nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11"],
                "cuda": ["nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu11"]}
    for name, spellings in packages.items():
        for spelling in spellings:
            try:
                found.setdefault(name, metadata.version(spelling))
            except metadata.PackageNotFoundError:
                pass
except ImportError:
    pass
print(json.dumps(found))
