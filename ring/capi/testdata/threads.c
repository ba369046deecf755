/* Threads that use one communicator and one queue, and close them under each other. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 6, ROUNDS = 100 };

static ring_comm comm, part;
static ring_queue queue;
static ring_request shared;
static int ranks;
static atomic_int closed_well, refused, busy;

static void all(void *(*what)(void *))
{
	pthread_t threads[THREADS];
	for (long i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, what, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
}

/* Names of its own, each again and again. */
static void *submits(void *arg)
{
	char name[32];
	snprintf(name, sizeof name, "of thread %ld", (long)arg);
	for (int i = 0; i < ROUNDS; i++) {
		float x = (float)i;
		ring_call call = sum_of(&x, 1);
		ring_request request;
		OK(ring_submit(queue, name, &call, &request));
		OK(ring_wait(request, i % 2 ? -1 : 60000));
		CHECK(x == (float)(ranks * i));
	}
	return NULL;
}

/* All threads wait for one request, and each gets its result. */
static void *waits(void *arg)
{
	int code = ring_wait(shared, (long)arg % 2 ? -1 : 60000);
	CHECK(code == RING_OK || code == RING_INVALID); /* which says that another has seen its end */
	if (code == RING_OK)
		atomic_fetch_add(&closed_well, 1);
	return NULL;
}

/* All wait for one that fails. */
static void *fails(void *arg)
{
	(void)arg;
	WANT(RING_MISMATCH, ring_wait(shared, -1));
	return NULL;
}

/* One may wait while another frees it. */
static void *frees(void *arg)
{
	(void)arg;
	int code = ring_wait(shared, -1);
	CHECK(code == RING_OK || code == RING_INVALID);
	code = ring_release(shared);
	CHECK(code == RING_OK || code == RING_INVALID);
	if (code == RING_OK)
		atomic_fetch_add(&closed_well, 1);
	return NULL;
}

static void *closes(void *arg)
{
	if ((long)arg % 2 == 0) {
		nap(20);
		int code = ring_close(part);
		CHECK(code == RING_OK || code == RING_CLOSED);
		atomic_fetch_add(code == RING_OK ? &closed_well : &refused, 1);
		return NULL;
	}
	float x = 1;
	ring_call call = sum_of(&x, 1);
	for (int code = RING_OK; code == RING_OK;) {
		ring_request request;
		if ((code = ring_start(part, &call, &request)) == RING_OK) {
			if ((code = ring_wait(request, -1)) != RING_OK)
				OK(ring_release(request));
		}
		CHECK(code == RING_OK || code == RING_CLOSED);
	}
	return NULL;
}

static void *closes_queue(void *arg)
{
	if ((long)arg == 0) {
		nap(20);
		OK(ring_queue_close(queue));
		return NULL;
	}
	char name[32];
	snprintf(name, sizeof name, "late %ld", (long)arg);
	for (int code = RING_OK; code == RING_OK;) {
		float x = 1;
		void *data;
		uint64_t count;
		const int64_t *counts;
		ring_request request;
		ring_call call = call_of(RING_ALLGATHER, RING_FLOAT32, 0, NULL, 0, &x, 1);
		if ((code = ring_submit_v(queue, name, &call, &request)) != RING_OK)
			break;
		atomic_fetch_add(&busy, 1);
		if ((code = ring_wait(request, -1)) == RING_OK)
			OK(ring_result(request, &data, &count, &counts));
		CHECK(code == RING_OK || code == RING_CLOSED);
		OK(ring_release(request));
	}
	return NULL;
}

int main(void)
{
	float x = 1;
	OK(ring_init(&comm, NULL));
	ring_info info = info_of(comm);
	ranks = info.ranks;
	OK(ring_queue_open(comm, NULL, &queue));
	all(submits);
	ring_call call = sum_of(&x, 1);
	for (int i = 0; i < ROUNDS; i++) {
		atomic_store(&closed_well, 0);
		OK(ring_submit(queue, "shared", &call, &shared));
		all(waits);
		CHECK(atomic_load(&closed_well) >= 1);
		ring_call gather = call_of(RING_ALLGATHER, RING_FLOAT32, 0, NULL, 0, &x, 1);
		atomic_store(&closed_well, 0);
		OK(ring_submit_v(queue, "freed", &gather, &shared));
		all(frees);
		CHECK(atomic_load(&closed_well) >= 1);
	}
	if (ranks > 1) {
		call = sum_of(&x, info.rank == 0 ? 1 : 0);
		OK(ring_submit(queue, "differs", &call, &shared));
		all(fails);
		OK(ring_release(shared));
	}
	OK(ring_barrier(comm));
	if (ranks == 1)
		for (int i = 0; i < 20; i++) {
			atomic_store(&closed_well, 0), atomic_store(&refused, 0);
			OK(ring_split(comm, 0, 0, &part));
			all(closes);
			CHECK(atomic_load(&closed_well) == 1 && atomic_load(&refused) == THREADS / 2 - 1);
			if (i > 0)
				OK(ring_queue_open(comm, NULL, &queue));
			all(closes_queue);
			CHECK(atomic_load(&busy) > 0);
		}
	puts("all right");
	fflush(stdout);
	OK(ring_close(comm));
	return 0;
}
