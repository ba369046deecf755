/* What goes wrong with devices: without a GPU where argv[1] is "none", else with one whose last rank is killed. */
#include "check.h"
#include <signal.h>

static ring_comm comm;
static ring_queue queue;
static ring_info info;
static float x[4];

static void wrong_arguments(void)
{
	static const char *const names[] = {"n"};
	ring_device device = 99;
	ring_device_options options;
	ring_device_info more;
	ring_request request;
	ring_call call = sum_of(x, 4);
	memset(&options, 0, sizeof options), memset(&more, 0, sizeof more);
	WANT(RING_INVALID, ring_device_open(comm, 0, NULL, NULL));
	WANT(RING_INVALID, ring_device_open(comm, 0, &options, &device));
	WANT(RING_INVALID, ring_device_open(queue, 0, NULL, &device));
	CHECK(device == 99);
	WANT(RING_INVALID, ring_device_run(comm, NULL, 1, &call, NULL));
	WANT(RING_INVALID, ring_device_wait(queue, 0));
	WANT(RING_INVALID, ring_device_error(12345));
	WANT(RING_INVALID, ring_device_get_info(comm, &more));
	WANT(RING_INVALID, ring_device_close(comm));
	WANT(RING_INVALID, ring_submit_device(comm, 0, NULL, 1, names, &call, &request));
	WANT(RING_INVALID, ring_submit_device(queue, 0, NULL, 1, NULL, &call, &request));
	WANT(RING_INVALID, ring_submit_device(queue, 0, NULL, 1, names, &call, NULL));
	WANT(RING_INVALID, ring_submit_device(queue, 0, NULL, 1, names, NULL, &request));
	OK(ring_submit_device(queue, 0, NULL, 0, NULL, NULL, NULL));
}

static void without(void)
{
	static const char *const names[] = {"n"};
	ring_device device = 99;
	ring_request request;
	ring_call call = sum_of(x, 4);
	WANT(RING_NO_GPU, ring_device_open(comm, 0, NULL, &device));
	CHECK(device == 99 && strstr(ring_last_error(), "rank ") != NULL);
	OK(ring_submit_device(queue, 0, NULL, 1, names, &call, &request));
	WANT(RING_NO_GPU, ring_wait(request, -1));
	OK(ring_release(request));
	x[0] = 1;
	OK(ring_allreduce(comm, x, x, 1, RING_FLOAT32, RING_SUM)); /* which works on */
	CHECK(x[0] == (float)info.ranks);
	OK(ring_submit(queue, "n", &call, &request));
	OK(ring_wait(request, -1));
	OK(ring_queue_close(queue));
	OK(ring_close(comm));
}

static void killed(void)
{
	ring_device device;
	ring_device_info more;
	ring_call call = sum_of(x, 4), bad = call_of(RING_ALLREDUCE, RING_FLOAT32, RING_SUM, NULL, 4, x, 4);
	double scale = 2;
	int code, victim = info.ranks - 1;
	memset(&more, 0, sizeof more);
	OK(ring_device_open(comm, info.rank, NULL, &device));
	WANT(RING_INVALID, ring_run(device, &call, 0));
	WANT(RING_INVALID, ring_device_get_info(device, &more));
	WANT(RING_INVALID, ring_device_run(device, NULL, 1, NULL, NULL));
	WANT(RING_INVALID, ring_device_run(device, NULL, SIZE_MAX, &call, NULL));
	WANT(RING_INVALID, ring_device_run(device, NULL, 1, &bad, NULL));
	bad = call_of(RING_ALLREDUCE, RING_INT32, RING_SUM, x, 4, x, 4);
	WANT(RING_INVALID, ring_device_run(device, NULL, 1, &bad, &scale));
	OK(ring_device_run(device, NULL, 0, NULL, NULL));
	OK(ring_device_run(device, NULL, 1, &call, NULL));
	OK(ring_device_wait(device, 20000));
	if (info.rank == victim) {
		nap(100);
		raise(SIGKILL);
	}
	OK(ring_device_run(device, NULL, 1, &call, NULL));
	code = ring_device_wait(device, 1); /* the victim naps */
	CHECK(code == RING_TIMEOUT || code == RING_PEER);
	WANT(RING_PEER, ring_device_wait(device, -1));
	CHECK(ring_failed_rank() == victim);
	WANT(RING_PEER, ring_device_error(device));
	WANT(RING_PEER, ring_device_run(device, NULL, 1, &call, NULL));
	CHECK(ring_failed_rank() == victim && strstr(ring_last_error(), "rank 2") != NULL);
	OK(ring_device_close(device));
	OK(ring_queue_close(queue));
	OK(ring_close(comm));
}

int main(int argc, char **argv)
{
	signal(SIGTERM, SIG_IGN); /* of gorun, that ends a job whose rank has died */
	OK(ring_init(&comm, NULL));
	info = info_of(comm);
	OK(ring_queue_open(comm, NULL, &queue));
	wrong_arguments();
	if (argc > 1 && strcmp(argv[1], "none") == 0)
		without();
	else
		killed();
	puts("all right");
	return 0;
}
