"""JAX's ranks find each other with what gorun sets, and add numbers by its gloo."""

import os

import jax

jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize()
import jax.numpy as jnp  # noqa: E402
from jax.experimental import multihost_utils  # noqa: E402

assert jax.process_count() == 2 and jax.process_index() == int(os.environ["RANK"])
assert multihost_utils.process_allgather(jnp.array([jax.process_index()])).ravel().tolist() == [0, 1]
jax.distributed.shutdown()
print("all right", flush=True)
