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
	for (int i = 0; i < n / 1000; i++) { /* what is closed with a result that was not released */
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

int main(int argc, char **argv)
{
	int n = atoi(argv[1]);
	CHECK(argc == 2);
	OK(ring_init(&comm, NULL));
	OK(ring_queue_open(comm, NULL, &queue));
	many(n / 5);
	int files = entries("/proc/self/fd");
	unsigned long long before = status_of("VmRSS", 10);
	fprintf(stderr, "from here\n");
	many(n);
	fprintf(stderr, "to here\n");
	unsigned long long after = status_of("VmRSS", 10);
	if (after > before + 6 * 1024) {
		fprintf(stderr, "%llu KiB at first, %llu KiB after %d calls\n", before, after, n);
		return 1;
	}
	CHECK(entries("/proc/self/fd") == files);
	puts("all right");
	return 0;
}
