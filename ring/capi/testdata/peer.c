/* Rank 1 is killed, and the others are told so. */
#include "check.h"
#include <signal.h>

int main(void)
{
	ring_comm comm, part;
	ring_queue queue;
	ring_request request, named;
	float x = 1, y = 1;
	int code;
	signal(SIGTERM, SIG_IGN); /* of gorun, that ends a job whose rank has died */
	OK(ring_init(&comm, NULL));
	ring_info info = info_of(comm);
	OK(ring_split(comm, 0, 0, &part));
	OK(ring_queue_open(comm, NULL, &queue));
	ring_call call = sum_of(&x, 1), other = sum_of(&y, 1);
	OK(ring_barrier(comm));
	if (info.rank == 1) {
		nap(100);
		raise(SIGKILL);
	}
	OK(ring_start(part, &call, &request));
	OK(ring_submit(queue, "named", &other, &named));
	while ((code = ring_barrier(comm)) == RING_OK)
		;
	CHECK(code == RING_PEER && ring_failed_rank() == 1 && strstr(ring_last_error(), "rank 1") != NULL);
	WANT(RING_PEER, ring_wait(request, 20000));
	CHECK(ring_failed_rank() == 1);
	WANT(RING_PEER, ring_wait(named, 20000));
	CHECK(ring_failed_rank() == 1);
	OK(ring_release(request));
	OK(ring_release(named));
	WANT(RING_PEER, ring_barrier(comm));
	OK(ring_queue_close(queue));
	OK(ring_close(part));
	OK(ring_close(comm));
	puts("all right");
	return 0;
}
