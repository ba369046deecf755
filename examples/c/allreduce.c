/* Averages a vector over all ranks, and a second one by name beside the work that goes on. docs/c.md says how to build it. */
#include <ring.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program when a call has failed; gorun then stops the other ranks, and says why. */
static void must(int code)
{
	if (code == RING_OK)
		return;
	fprintf(stderr, "%s: %s\n", ring_error_name(code), ring_last_error());
	exit(1);
}

int main(void)
{
	ring_comm comm;
	ring_queue queue;
	ring_info info = {.size = sizeof info};
	must(ring_init(&comm, NULL));
	must(ring_comm_info(comm, &info));
	must(ring_queue_open(comm, NULL, &queue));

	/* Together: all ranks make the same calls in the same order. */
	float gradient[4] = {0, 1, 2, (float)info.rank};
	must(ring_allreduce(comm, gradient, gradient, 4, RING_FLOAT32, RING_AVG));

	/* By name, in any order, while this thread does something else. */
	double loss = info.rank;
	ring_call call = {.size = sizeof call, .kind = RING_ALLREDUCE, .dtype = RING_FLOAT64, .op = RING_SUM,
		.dst = &loss, .dst_count = 1, .src = &loss, .src_count = 1};
	ring_request request;
	must(ring_submit(queue, "loss", &call, &request));
	must(ring_wait(request, -1));

	printf("rank %d of %d on %s: gradient %g %g %g %g, loss %g\n", info.rank, info.ranks, info.host,
		gradient[0], gradient[1], gradient[2], gradient[3], loss);
	must(ring_barrier(comm)); /* nobody leaves while another one waits */
	must(ring_queue_close(queue));
	must(ring_close(comm));
	return 0;
}
