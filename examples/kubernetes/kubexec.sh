#!/bin/sh
# Runs a command in a pod, for gorun --launch-agent: kubexec.sh POD COMMAND.
pod=$1
shift
exec kubectl exec -i "$pod" -- /bin/sh -c "$*"
