/* What the test programs share. A check that fails says so and ends the rank. */
#ifndef CHECK_H
#define CHECK_H

#include <ring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(good) ((good) ? (void)0 : failed(__FILE__, __LINE__, #good))
#define WANT(code, call) want(__FILE__, __LINE__, #call, code, call)
#define OK(call) WANT(RING_OK, call)

static inline void failed(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: %s is not so (last error: %s)\n", file, line, what, ring_last_error());
	_Exit(9);
}

static inline void want(const char *file, int line, const char *what, int code, int got)
{
	if (got == code)
		return;
	fprintf(stderr, "%s:%d: %s is %s, want %s (last error: %s)\n", file, line, what, ring_error_name(got), ring_error_name(code), ring_last_error());
	_Exit(9);
}

static inline ring_call call_of(int kind, int dtype, int op, void *dst, uint64_t dst_count, const void *src, uint64_t src_count)
{
	ring_call call;
	memset(&call, 0, sizeof call);
	call.size = sizeof call;
	call.kind = kind, call.dtype = dtype, call.op = op, call.to = call.from = -1;
	call.dst = dst, call.dst_count = dst_count, call.src = src, call.src_count = src_count;
	return call;
}

/* An allreduce in place of n floats. */
static inline ring_call sum_of(float *x, uint64_t n) { return call_of(RING_ALLREDUCE, RING_FLOAT32, RING_SUM, x, n, x, n); }

static inline ring_info info_of(ring_comm comm)
{
	ring_info info;
	memset(&info, 0, sizeof info);
	info.size = sizeof info;
	OK(ring_comm_info(comm, &info));
	return info;
}

static inline void nap(int ms)
{
	struct timespec t;
	t.tv_sec = ms / 1000, t.tv_nsec = ms % 1000 * 1000000L;
	nanosleep(&t, NULL);
}

static inline double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A line of /proc/self/status, such as VmRSS, read in the given base. */
static inline unsigned long long status_of(const char *name, int base)
{
	char line[256];
	unsigned long long value = 0;
	FILE *f = fopen("/proc/self/status", "r");
	CHECK(f != NULL);
	while (fgets(line, sizeof line, f) != NULL)
		if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
			value = strtoull(line + strlen(name) + 1, NULL, base);
	fclose(f);
	return value;
}

#endif
