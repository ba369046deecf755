/*
 * A stand-in for libcuda.so.1: the GPU's memory is the host's, and a stream is a thread that works off what was
 * enqueued. How much of what is not given back yet is in a file of
 * the process in $STANDIN_LEAKS, a line for each kind. With $STANDIN_CAPTURE some other thread captures a graph.
 */
#include "standin.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef STANDIN_HALF /* a driver too old to have it */
#define cuEventQuery cuEventQueryOfOld
#endif

enum { success = 0, invalid_value = 1, out_of_memory = 2, invalid_context = 201, not_ready = 600, capture_unsupported = 900 };

typedef struct item {
	standin_work work;
	void *arg;
	struct item *next;
} item;

typedef struct stream {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	item *first, **last;
	unsigned long enqueued, done;
	int ending, gpu;
} stream;

typedef struct {
	stream *stream;
	unsigned long at;
} event;

static __thread int depth; /* of contexts */
static __thread int current; /* the GPU of the context */
static stream *standard[9]; /* stream 0 of each GPU */
static pthread_mutex_t world = PTHREAD_MUTEX_INITIALIZER;

enum { kinds = 8 };
static struct { const char *what; int n; } live[kinds];

int standin_env(const char *name, int otherwise)
{
	const char *text = getenv(name);
	return text && *text ? atoi(text) : otherwise;
}

int standin_current(void) { return depth > 0; }

/* A line each: the process may end in any way. */
static void note(int i)
{
	static int file = -1;
	char path[4096], line[64];
	const char *dir = getenv("STANDIN_LEAKS");
	if (file < 0 && dir) {
		snprintf(path, sizeof path, "%s/%d", dir, (int)getpid());
		file = open(path, O_WRONLY | O_CREAT, 0600);
	}
	int n = snprintf(line, sizeof line, "%3d of %-24s\n", live[i].n, live[i].what);
	if (file >= 0 && pwrite(file, line, n, (off_t)i * n) != n)
		abort();
}

void standin_live(const char *what, int by)
{
	pthread_mutex_lock(&world);
	for (int i = 0; i < kinds; i++)
		if (live[i].what == NULL || strcmp(live[i].what, what) == 0) {
			live[i].what = what;
			live[i].n += by;
			note(i);
			break;
		}
	pthread_mutex_unlock(&world);
}

static void *work_off(void *arg)
{
	stream *s = arg;
	pthread_mutex_lock(&s->lock);
	for (;;) {
		while (s->first == NULL && !s->ending)
			pthread_cond_wait(&s->changed, &s->lock);
		item *i = s->first;
		if (i == NULL)
			break;
		pthread_mutex_unlock(&s->lock);
		i->work(i->arg);
		pthread_mutex_lock(&s->lock);
		s->first = i->next;
		if (s->first == NULL)
			s->last = &s->first;
		free(i);
		s->done++;
		pthread_cond_broadcast(&s->changed);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static stream *streams[256]; /* all that there were; stream 0 of a GPU too */
static int made;

static stream *new_stream(void)
{
	stream *s = calloc(1, sizeof *s);
	if (made == 256)
		abort();
	streams[made++] = s;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	s->last = &s->first;
	s->gpu = current;
	pthread_create(&s->thread, NULL, work_off, s);
	return s;
}

static stream *of(void *handle)
{
	if (handle)
		return handle;
	pthread_mutex_lock(&world);
	if (standard[current] == NULL)
		standard[current] = new_stream();
	pthread_mutex_unlock(&world);
	return standard[current];
}

int standin_enqueue(void *handle, standin_work work, void *arg)
{
	stream *s = of(handle);
	item *i = calloc(1, sizeof *i);
	i->work = work;
	i->arg = arg;
	pthread_mutex_lock(&s->lock);
	*s->last = i;
	s->last = &i->next;
	s->enqueued++;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return success;
}

int cuInit(unsigned flags) { return flags ? invalid_value : success; }
int cuDriverGetVersion(int *v) { *v = 12080; return success; }
int cuDeviceGetCount(int *n) { *n = 8; return success; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return ordinal >= 0 && ordinal < 8 ? success : 101; }

int cuDevicePrimaryCtxRetain(void **ctx, int device)
{
	*ctx = (void *)(intptr_t)(device + 1);
	standin_live("contexts", 1);
	return success;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
	(void)device;
	standin_live("contexts", -1);
	return success;
}

int cuCtxPushCurrent_v2(void *ctx)
{
	if (ctx == NULL)
		return invalid_context;
	depth++;
	current = (int)(intptr_t)ctx;
	return success;
}

int cuCtxPopCurrent_v2(void **ctx)
{
	*ctx = NULL;
	if (depth == 0)
		return invalid_context;
	depth--;
	return success;
}

#define IN_CONTEXT() if (depth != 1) return invalid_context /* 2: it was pushed and not popped */

int cuStreamCreate(void **out, unsigned flags)
{
	(void)flags;
	IN_CONTEXT();
	pthread_mutex_lock(&world);
	*out = new_stream();
	pthread_mutex_unlock(&world);
	standin_live("streams", 1);
	return success;
}

int cuStreamDestroy_v2(void *handle)
{
	stream *s = handle;
	IN_CONTEXT();
	pthread_mutex_lock(&s->lock);
	s->ending = 1;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL); /* never freed: events outlive their streams */
	standin_live("streams", -1);
	return success;
}

static int reached(stream *s, unsigned long at)
{
	pthread_mutex_lock(&s->lock);
	int yes = s->done >= at;
	pthread_mutex_unlock(&s->lock);
	return yes ? success : not_ready;
}

static __thread int capture_mode; /* 0: of all threads, 2: none, of this thread */

int cuThreadExchangeStreamCaptureMode(int *mode)
{
	int was = capture_mode;
	capture_mode = *mode;
	*mode = was;
	return success;
}

#define NOT_IN_CAPTURE() if (capture_mode != 2 && standin_env("STANDIN_CAPTURE", 0)) return capture_unsupported

int cuStreamQuery(void *handle)
{
	stream *s = of(handle);
	IN_CONTEXT();
	NOT_IN_CAPTURE();
	pthread_mutex_lock(&s->lock);
	unsigned long at = s->enqueued;
	pthread_mutex_unlock(&s->lock);
	return reached(s, at);
}

int cuEventCreate(void **out, unsigned flags)
{
	(void)flags;
	IN_CONTEXT();
	*out = calloc(1, sizeof(event));
	standin_live("events", 1);
	return success;
}

int cuEventDestroy_v2(void *e)
{
	IN_CONTEXT();
	free(e);
	standin_live("events", -1);
	return success;
}

int cuEventRecord(void *handle, void *on)
{
	event *e = handle;
	IN_CONTEXT();
	e->stream = of(on);
	pthread_mutex_lock(&e->stream->lock);
	e->at = e->stream->enqueued;
	pthread_mutex_unlock(&e->stream->lock);
	return success;
}

int cuEventQuery(void *handle)
{
	event *e = handle;
	IN_CONTEXT();
	NOT_IN_CAPTURE();
	return e->stream ? reached(e->stream, e->at) : success;
}

int cuMemAlloc_v2(uint64_t *at, size_t n)
{
	void *p = malloc(n);
	IN_CONTEXT();
	*at = (uint64_t)(uintptr_t)p;
	standin_live("device memory", 1);
	return p ? success : out_of_memory;
}

int cuMemFree_v2(uint64_t at)
{
	IN_CONTEXT();
	for (int i = 0; i < made; i++) /* it waits for what may use the memory, and so for all */
		if (streams[i]->gpu == current)
			while (cuStreamQuery(streams[i]) == not_ready)
				usleep(50);
	free((void *)(uintptr_t)at);
	standin_live("device memory", -1);
	return success;
}

int cuMemHostAlloc(void **at, size_t n, unsigned flags)
{
	IN_CONTEXT();
	if (flags != 1)
		return invalid_value;
	*at = malloc(n);
	standin_live("host memory", 1);
	return *at ? success : out_of_memory;
}

int cuMemFreeHost(void *at)
{
	IN_CONTEXT();
	free(at);
	standin_live("host memory", -1);
	return success;
}

typedef struct {
	void *dst;
	const void *src;
	size_t n;
} copy;

static void do_copy(void *arg)
{
	copy *c = arg;
	int slow = standin_env("STANDIN_SLOW_COPY", 0);
	if (slow)
		usleep(slow); /* what is read too early is old */
	memcpy(c->dst, c->src, c->n);
	free(c);
}

static int enqueue_copy(void *dst, const void *src, size_t n, void *on)
{
	IN_CONTEXT();
	copy *c = malloc(sizeof *c);
	*c = (copy){dst, src, n};
	return standin_enqueue(on, do_copy, c);
}

int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t n, void *on) { return enqueue_copy((void *)(uintptr_t)dst, src, n, on); }
int cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t n, void *on) { return enqueue_copy(dst, (void *)(uintptr_t)src, n, on); }

int cuGetErrorName(int rc, const char **name)
{
	*name = rc == invalid_context ? "CUDA_ERROR_INVALID_CONTEXT" : rc == 101 ? "CUDA_ERROR_INVALID_DEVICE" : "CUDA_ERROR_OF_STANDIN";
	return success;
}
