/* Arguments that are wrong, and errors that ranks make together. What is wrong must leave all as it was. */
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static ring_comm comm;
static ring_queue queue;
static int rank, ranks;

/* The text of the last error says something, and has a word in it. */
static void says(const char *word)
{
	if (strstr(ring_last_error(), word) != NULL)
		return;
	fprintf(stderr, "the error %s does not say %s\n", ring_last_error(), word);
	_Exit(9);
}

static void still_works(void)
{
	float x = 1;
	OK(ring_allreduce(comm, &x, &x, 1, RING_FLOAT32, RING_SUM));
	CHECK(x == (float)ranks);
}

static void nulls(void)
{
	ring_request request;
	ring_comm part = 99;
	int32_t me = rank;
	float x[8] = {0};
	const char *none[] = {NULL}, *name[] = {"n"};
	ring_call call = sum_of(x, 1);
	WANT(RING_INVALID, ring_init(NULL, NULL));
	WANT(RING_INVALID, ring_split(comm, 0, 0, NULL));
	WANT(RING_INVALID, ring_group(comm, "n", &me, 1, 0, NULL));
	WANT(RING_INVALID, ring_group(comm, "n", &me, SIZE_MAX, 0, &part));
	WANT(RING_INVALID, ring_comm_info(comm, NULL));
	WANT(RING_INVALID, ring_run(comm, NULL, 0));
	WANT(RING_INVALID, ring_start(comm, NULL, &request));
	WANT(RING_INVALID, ring_start(comm, &call, NULL));
	WANT(RING_INVALID, ring_queue_open(comm, NULL, NULL));
	WANT(RING_INVALID, ring_submit(queue, NULL, &call, &request));
	WANT(RING_INVALID, ring_submit(queue, "n", NULL, &request));
	WANT(RING_INVALID, ring_submit(queue, "n", &call, NULL));
	WANT(RING_INVALID, ring_submit(queue, "", &call, &request));
	WANT(RING_INVALID, ring_submit_v(queue, "n", &call, NULL));
	WANT(RING_INVALID, ring_submit_v(queue, "n", NULL, &request));
	WANT(RING_INVALID, ring_submit_group(queue, 1, NULL, &call, &request));
	WANT(RING_INVALID, ring_submit_group(queue, 1, name, NULL, &request));
	WANT(RING_INVALID, ring_submit_group(queue, 1, name, &call, NULL));
	WANT(RING_INVALID, ring_submit_group(queue, 1, none, &call, &request));
	WANT(RING_INVALID, ring_submit_group(queue, SIZE_MAX, name, &call, &request));
	WANT(RING_INVALID, ring_timeline_start(queue, NULL, 0));
	WANT(RING_INVALID, ring_timeline_start(queue, "/nowhere/at/all", 0));
	says("/nowhere/at/all");
	WANT(RING_INVALID, ring_result(1, NULL, NULL, NULL));
	WANT(RING_INVALID, ring_poll(1, NULL));
	OK(ring_error_text(comm, NULL, 0));
	WANT(RING_INVALID, ring_allreduce(comm, NULL, x, 3, RING_FLOAT32, RING_SUM));
	says("NULL");
	OK(ring_allreduce(comm, NULL, NULL, 0, RING_FLOAT32, RING_SUM));
	CHECK(part == 99);
	still_works();
}

static void sizes(void)
{
	ring_comm other;
	ring_queue another;
	float x[2] = {0};
	ring_call call = sum_of(x, 1);
	ring_init_options init = {sizeof init - 1, 0, 0, 0};
	ring_queue_options open = {sizeof open - 1, -1, -1, 0};
	ring_info info;
	call.size--;
	info.size = 8;
	WANT(RING_INVALID, ring_init(&other, &init));
	says("sizeof(ring_init_options)");
	WANT(RING_INVALID, ring_queue_open(comm, &open, &another));
	WANT(RING_INVALID, ring_comm_info(comm, &info));
	WANT(RING_INVALID, ring_run(comm, &call, 0));
	says("sizeof(ring_call)");
	still_works();
}

static void calls(void)
{
	static const int64_t less[8] = {-1, 1, 1, 1}, more[8] = {1, INT64_MAX, INT64_MAX, 1};
	ring_request request;
	float x[8] = {0}, y[8];
	ring_call call = sum_of(x, 1);
	call.kind = 99;
	WANT(RING_INVALID, ring_run(comm, &call, 0));
	says("99");
	call = sum_of(x, 1), call.kind = -1;
	WANT(RING_INVALID, ring_start(comm, &call, &request));
	call = sum_of(x, 1), call.dtype = 3;
	WANT(RING_INVALID, ring_run(comm, &call, 0));
	call = sum_of(x, 1), call.op = 5;
	WANT(RING_INVALID, ring_run(comm, &call, 0));
	call = sum_of(x, 1), call.dst_count = 2;
	WANT(RING_INVALID, ring_run(comm, &call, 0));
	call = call_of(RING_ALLREDUCE, RING_FLOAT32, RING_SUM, x, 2, x + 1, 2);
	WANT(RING_INVALID, ring_run(comm, &call, 0));
	says("overlaps");
	call = sum_of(x, UINT64_MAX);
	WANT(RING_INVALID, ring_run(comm, &call, 0));
	call = sum_of((float *)(UINTPTR_MAX - 7), 8);
	WANT(RING_INVALID, ring_run(comm, &call, 0));
	says("beyond");
	WANT(RING_INVALID, ring_broadcast(comm, x, 1, RING_FLOAT32, ranks));
	WANT(RING_INVALID, ring_broadcast(comm, x, 1, RING_FLOAT32, -1));
	WANT(RING_INVALID, ring_send(comm, x, 1, RING_FLOAT32, ranks));
	WANT(RING_INVALID, ring_send(comm, x, 1, RING_FLOAT32, rank));
	/* Counts that wrap around when they are multiplied or added up. */
	WANT(RING_INVALID, ring_alltoall(comm, x, y, (uint64_t)1 << 63, RING_FLOAT32));
	WANT(RING_INVALID, ring_allgather(comm, x, y, (uint64_t)1 << 62, RING_FLOAT32));
	call = call_of(RING_ALLGATHER, RING_FLOAT32, 0, x, 1, y, 1), call.counts = less;
	WANT(RING_INVALID, ring_run(comm, &call, 0));
	if (ranks == 4) { /* 1 + 2 (2^63 - 1) + 1 is 0 */
		call = call_of(RING_ALLGATHER, RING_FLOAT32, 0, NULL, 0, y, 1), call.counts = more;
		if (rank == 0 || rank == 3)
			WANT(RING_INVALID, ring_run(comm, &call, 0));
	}
	/* A queue has its own. */
	call = call_of(RING_REDUCE, RING_FLOAT32, RING_SUM, x, 1, y, 1);
	WANT(RING_INVALID, ring_submit(queue, "reduce", &call, &request));
	WANT(RING_INVALID, ring_submit_v(queue, "v", &call, &request));
	call = sum_of(x, 1), call.dtype = 77;
	WANT(RING_INVALID, ring_submit(queue, "of type 77", &call, &request));
	/* Addresses where no struct can be are a fault of ours, but none that ends the program. */
	WANT(RING_INTERNAL, ring_run(comm, (const ring_call *)16, 0));
	still_works();
}

static void handles(void)
{
	ring_request request, other;
	float x = 1;
	int done;
	char text[64];
	ring_call call = sum_of(&x, 1);
	static const uint64_t wrong[] = {0, 12345, UINT32_MAX, (uint64_t)1 << 39, UINT64_MAX, (uint64_t)12345 << 40 | 1};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		WANT(RING_INVALID, ring_close(wrong[i]));
		WANT(RING_INVALID, ring_run(wrong[i], &call, 0));
		WANT(RING_INVALID, ring_start(wrong[i], &call, &request));
		WANT(RING_INVALID, ring_split(wrong[i], 0, 0, &request));
		WANT(RING_INVALID, ring_queue_open(wrong[i], NULL, &request));
		WANT(RING_INVALID, ring_queue_close(wrong[i]));
		WANT(RING_INVALID, ring_submit(wrong[i], "n", &call, &request));
		WANT(RING_INVALID, ring_poll(wrong[i], &done));
		WANT(RING_INVALID, ring_wait(wrong[i], 0));
		WANT(RING_INVALID, ring_release(wrong[i]));
		WANT(RING_INVALID, ring_error_text(wrong[i], text, sizeof text));
		WANT(RING_INVALID, ring_timeline_stop(wrong[i]));
	}
	/* The wrong sort. */
	WANT(RING_INVALID, ring_run(queue, &call, 0));
	says("queue");
	WANT(RING_INVALID, ring_close(queue));
	WANT(RING_INVALID, ring_submit(comm, "n", &call, &request));
	WANT(RING_INVALID, ring_queue_close(comm));
	WANT(RING_INVALID, ring_wait(comm, 0));
	OK(ring_start(comm, &call, &request));
	WANT(RING_INVALID, ring_run(request, &call, 0));
	WANT(RING_INVALID, ring_close(request));
	WANT(RING_INVALID, ring_result(request, (void **)&x, (uint64_t *)&x, (const int64_t **)&x));
	says("no result");
	OK(ring_wait(request, -1));
	/* A place that is used again has another handle, however often. */
	other = request;
	for (int i = 0; i < (ranks == 1 ? 5000 : 20); i++) {
		OK(ring_start(comm, &call, &request));
		WANT(RING_INVALID, ring_poll(other, &done));
		OK(ring_wait(request, -1));
	}
	OK(ring_start(comm, &call, &request));
	for (done = 0; !done; nap(1))
		OK(ring_poll(request, &done));
	OK(ring_release(request));
	WANT(RING_INVALID, ring_wait(request, 0));
}

/*
 * Errors of the names of a queue: only that name fails. Alone, a rank has
 * none of them: its call may be done before the next one is submitted.
 */
static void names(void)
{
	ring_request request, again;
	float x[2] = {1, 1};
	char text[256];
	ring_call call = sum_of(x, 1);
	if (ranks == 1)
		return;
	if (rank == 0) {
		OK(ring_submit(queue, "twice", &call, &request));
		WANT(RING_DUPLICATE, ring_submit(queue, "twice", &call, &again));
		says("twice");
		OK(ring_error_text(queue, text, sizeof text));
		CHECK(strstr(text, "twice") != NULL);
		WANT(RING_TIMEOUT, ring_wait(request, 0));
		WANT(RING_TIMEOUT, ring_wait(request, 50));
		says("twice");
		WANT(RING_INVALID, ring_release(request));
		OK(ring_barrier(comm));
	} else {
		OK(ring_barrier(comm));
		OK(ring_submit(queue, "twice", &call, &request));
	}
	OK(ring_wait(request, 60000));
	CHECK(x[0] == (float)ranks);

	call = sum_of(x, rank == 0 ? 1 : 2);
	OK(ring_submit(queue, "differs", &call, &request));
	WANT(RING_MISMATCH, ring_wait(request, -1));
	says("differs");
	CHECK(ring_failed_rank() == -1);
	OK(ring_error_text(request, text, sizeof text));
	CHECK(strstr(text, "differs") != NULL);
	OK(ring_error_text(request, text, 5));
	CHECK(strlen(text) == 4);
	/* What came of it stays, when the name is in use again. */
	call = sum_of(x, 1);
	OK(ring_submit(queue, "differs", &call, &again));
	OK(ring_wait(again, -1));
	WANT(RING_MISMATCH, ring_wait(request, -1));
	OK(ring_release(request));
	WANT(RING_INVALID, ring_error_text(request, text, sizeof text));

	/* The result of one that failed is its error, waited for or not. */
	call = call_of(RING_ALLGATHER, rank == 0 ? RING_INT32 : RING_FLOAT32, 0, NULL, 0, x, 1);
	OK(ring_submit_v(queue, "v", &call, &request));
	int done = 0;
	while (!done)
		OK(ring_poll(request, &done));
	void *data;
	uint64_t count;
	const int64_t *counts;
	WANT(RING_MISMATCH, ring_result(request, &data, &count, &counts));
	OK(ring_release(request));
	still_works();
}

/* Options of one rank that no queue can have are an error on all. */
static void options(void)
{
	ring_queue_options open = {sizeof open, -1, -1, 0};
	ring_queue other;
	if (rank == 0)
		open.cache_names = INT64_MAX;
	WANT(RING_INVALID, ring_queue_open(comm, &open, &other));
	open.cache_names = 0, open.fusion_bytes = INT64_MAX, open.stall_ms = INT64_MAX;
	OK(ring_queue_open(comm, &open, &other));
	static const char *const tensors[] = {"a", "b"};
	ring_request requests[2];
	float x[2] = {1, 1};
	ring_call two[2];
	two[0] = sum_of(&x[0], 1), two[1] = sum_of(&x[1], 1);
	OK(ring_submit_group(other, 2, tensors, two, requests)); /* fused, in memory as it is needed */
	OK(ring_wait(requests[0], -1));
	OK(ring_wait(requests[1], -1));
	CHECK(x[0] == (float)ranks && x[1] == (float)ranks);
	OK(ring_barrier(comm));
	OK(ring_queue_close(other));
}

static void *in_thread(void *arg)
{
	(void)arg;
	CHECK(strcmp(ring_last_error(), "") == 0 && ring_failed_rank() == -1);
	WANT(RING_INVALID, ring_close(777));
	says("777");
	return NULL;
}

/* Each thread has its own text. */
static void threads(void)
{
	pthread_t thread;
	WANT(RING_INVALID, ring_close(888));
	CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
	says("888");
}

/* Every function refuses in a child, at once. */
static void forks(void)
{
	float x = 1;
	ring_call call = sum_of(&x, 1);
	ring_request request = 1;
	int status, done;
	ring_comm other;
	const char *name[] = {"n"};
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		alarm(20); /* ends the program if it hangs */
		WANT(RING_FORKED, ring_init(&other, NULL));
		WANT(RING_FORKED, ring_run(comm, &call, 0));
		says("fork");
		WANT(RING_FORKED, ring_barrier(comm));
		WANT(RING_FORKED, ring_allgather(comm, &x, &x, 1, RING_FLOAT32));
		WANT(RING_FORKED, ring_start(comm, &call, &request));
		WANT(RING_FORKED, ring_poll(request, &done));
		WANT(RING_FORKED, ring_wait(request, -1));
		WANT(RING_FORKED, ring_release(request));
		WANT(RING_FORKED, ring_submit(queue, "n", &call, &request));
		WANT(RING_FORKED, ring_submit_v(queue, "n", &call, &request));
		WANT(RING_FORKED, ring_submit_group(queue, 1, name, &call, &request));
		WANT(RING_FORKED, ring_queue_close(queue));
		WANT(RING_FORKED, ring_close(comm));
		CHECK(ring_abi() == RING_ABI && ring_version() != NULL);
		if (fork() == 0) {
			WANT(RING_FORKED, ring_barrier(comm));
			_exit(0);
		}
		wait(&status);
		_exit(status == 0 ? 42 : 1);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 42);
	if ((child = vfork()) == 0) /* a child that only starts a program harms nothing */
		_exit(execl("/bin/true", "true", (char *)NULL));
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	still_works();
}

/* What is closed, and what was pending then. */
static void closing(void)
{
	ring_comm part;
	ring_queue other;
	ring_request held, pending;
	float x = 1, y = 1;
	char text[64];
	ring_call call = sum_of(&x, 1), lone = sum_of(&y, 1);
	OK(ring_split(comm, rank, 0, &part));
	OK(ring_queue_open(part, NULL, &other));
	OK(ring_start(part, &call, &held));
	OK(ring_queue_close(other));
	WANT(RING_CLOSED, ring_queue_close(other));
	WANT(RING_CLOSED, ring_submit(other, "n", &call, &pending));
	OK(ring_close(part));
	WANT(RING_CLOSED, ring_close(part));
	WANT(RING_CLOSED, ring_run(part, &call, 0));
	says("closed");
	int code = ring_wait(held, -1); /* over or not, it is still there */
	CHECK(code == RING_OK || code == RING_CLOSED);
	if (code == RING_CLOSED)
		OK(ring_release(held));
	WANT(RING_INVALID, ring_wait(held, -1));
	WANT(RING_CLOSED, ring_error_text(part, text, sizeof text));
	if (ranks == 1)
		return;

	/* A result outlives its queue, and what waits for other ranks fails. */
	OK(ring_queue_open(comm, NULL, &other));
	ring_call gather = call_of(RING_ALLGATHER, RING_FLOAT32, 0, NULL, 0, &x, 1);
	OK(ring_submit_v(other, "v", &gather, &held));
	OK(ring_wait(held, -1));
	OK(ring_barrier(comm));
	if (rank == 0)
		OK(ring_submit(other, "only here", &lone, &pending));
	OK(ring_queue_close(other));
	if (rank == 0) {
		code = ring_wait(pending, -1);
		CHECK(code == RING_CLOSED || code == RING_PEER);
		CHECK(ring_wait(pending, 0) == code);
		OK(ring_release(pending));
	}
	void *data;
	uint64_t count;
	const int64_t *counts;
	OK(ring_result(held, &data, &count, &counts));
	CHECK(count == (uint64_t)ranks && ((float *)data)[ranks - 1] != 0);
	OK(ring_release(held));
	still_works();
}

/* A timeout of ring_run breaks a communicator. It is no timeout of a wait: that would be tried again for ever. */
static void timeouts(void)
{
	ring_comm part;
	ring_request request;
	float x = 1;
	ring_call call = sum_of(&x, 1);
	OK(ring_split(comm, 0, 0, &part));
	OK(ring_barrier(comm));
	if (rank == 0) {
		WANT(RING_TIMEOUT, ring_run(part, &call, 100));
		WANT(RING_TIMEOUT, ring_run(part, &call, 100));
		int code = ring_start(part, &call, &request);
		CHECK(code == RING_OK);
		WANT(RING_PEER, ring_wait(request, 5000));
		WANT(RING_PEER, ring_wait(request, -1));
		OK(ring_release(request));
	} else {
		nap(1500);
		WANT(RING_PEER, ring_run(part, &call, 0));
		CHECK(ring_failed_rank() >= 0);
	}
}

int main(int argc, char **argv)
{
	(void)argc, (void)argv;
	CHECK(strcmp(ring_error_name(RING_MISMATCH), "RING_MISMATCH") == 0 && strcmp(ring_error_name(-1), "RING_UNKNOWN") == 0);
	CHECK(strcmp(ring_error_name(10), "RING_UNKNOWN") == 0 && strcmp(ring_error_name(RING_NO_GPU), "RING_NO_GPU") == 0 && strcmp(ring_error_name(RING_INTERNAL), "RING_INTERNAL") == 0);
	OK(ring_init(&comm, NULL));
	OK(ring_queue_open(comm, NULL, &queue));
	ring_info info = info_of(comm);
	rank = info.rank, ranks = info.ranks;
	nulls();
	sizes();
	calls();
	handles();
	names();
	options();
	threads();
	forks();
	closing();
	OK(ring_barrier(comm));
	puts("all right");
	fflush(stdout);
	if (ranks > 1)
		timeouts(); /* the job ends with it */
	return 0;
}
