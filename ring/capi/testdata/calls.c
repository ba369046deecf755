/* A million calls, and more: nothing grows. */
#include "check.h"
#include <dirent.h>

static int entries(const char *path)
{
	int n = 0;
	DIR *d = opendir(path);
	CHECK(d != NULL);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

static ring_comm comm;
static ring_queue queue;

static void many(int n)
{
	static char memory[4096];
	enum { BATCH = 100 };
	ring_request requests[BATCH], request;
	float x = 1, y[BATCH] = {0};
	char names[BATCH][16];
	ring_call call = sum_of(&x, 1);
	for (int i = 0; i < n; i++)
		OK(ring_run(comm, &call, 0));
	for (int i = 0; i < n; i += BATCH) {
		for (int j = 0; j < BATCH; j++)
			OK(ring_start(comm, &call, &requests[j]));
		for (int j = 0; j < BATCH; j++)
			OK(ring_wait(requests[j], -1));
	}
	for (int j = 0; j < BATCH; j++)
		snprintf(names[j], sizeof names[j], "name %d", j);
	for (int i = 0; i < n; i += BATCH) {
		for (int j = 0; j < BATCH; j++) {
			call = sum_of(&y[j], 1);
			OK(ring_submit(queue, names[j], &call, &requests[j]));
		}
		for (int j = 0; j < BATCH; j++)
			OK(ring_wait(requests[j], -1));
	}
	for (int i = 0; i < n / 100; i++) { /* 4 KiB of result each */
		void *data;
		uint64_t count;
		const int64_t *counts;
		call = call_of(RING_ALLGATHER, RING_UINT8, 0, NULL, 0, memory, sizeof memory);
		OK(ring_submit_v(queue, "result", &call, &request));
		OK(ring_wait(request, -1));
		OK(ring_result(request, &data, &count, &counts));
		OK(ring_release(request));
	}
}

/* Queues and communicators, closed with a result that was not released. */
static void opens(int n)
{
	static char memory[64];
	ring_call call = call_of(RING_ALLGATHER, RING_UINT8, 0, NULL, 0, memory, sizeof memory);
	for (int i = 0; i < n; i++) {
		ring_request request;
		ring_queue other;
		ring_comm part;
		OK(ring_split(comm, 0, 0, &part));
		OK(ring_queue_open(part, NULL, &other));
		OK(ring_submit_v(other, "result", &call, &request));
		OK(ring_wait(request, -1));
		OK(ring_queue_close(other));
		OK(ring_release(request));
		OK(ring_close(part));
	}
}

/* The memory there is, in KiB; it must be no more than so much above what it was, unless that is 0. */
static unsigned long long grown(unsigned long long from, unsigned long long most, const char *by)
{
	unsigned long long is = status_of("VmRSS", 10);
	if (from != 0 && is > from + most) {
		fprintf(stderr, "%llu KiB, and after the %s %llu KiB\n", from, by, is);
		_Exit(1);
	}
	return is;
}

int main(int argc, char **argv)
{
	int n = atoi(argv[1]);
	CHECK(argc == 2);
	OK(ring_init(&comm, NULL));
	OK(ring_queue_open(comm, NULL, &queue));
	many(n / 5);
	unsigned long long at_first = grown(0, 0, "");
	many(n);
	grown(at_first, 3 * 1024, "calls");
	opens(n / 1000);
	int files = entries("/proc/self/fd");
	at_first = grown(0, 0, "");
	opens(2 * n / 1000);
	grown(at_first, 10 * 1024, "queues");
	CHECK(entries("/proc/self/fd") == files);
	puts("all right");
	return 0;
}
