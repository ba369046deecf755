#!/bin/sh
# Stands for a training program: it says what it was told.
echo "rank $RANK of $WORLD_SIZE on $GORUN_HOSTNAME: $EPOCHS epochs at $LEARNING_RATE on $DATA, model ${2:-none}"
