"""Stands in for horovod, so that its own tests run against gorun.torch."""
