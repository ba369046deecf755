#!/bin/sh
# Trains in a Singularity or Apptainer image: train.sh f1:2,f2:2 horovod.sif train.py [arguments]
# The image must lie at the same path on every host.
set -eu
hosts=$1 image=$2
shift 2

# -e keeps the hosts' own variables, Python paths among them, out of the image. What gorun and -x set
# gets in. --nv is for hosts with NVIDIA's driver.
exec gorun -H "$hosts" -x NCCL_DEBUG singularity exec -e --nv "$image" python "$@"
