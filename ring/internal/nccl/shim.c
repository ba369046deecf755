//go:build cgo && linux

#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { nccl_success = 0, nccl_unhandled_cuda = 1, nccl_in_progress = 7 };
enum { fn_all_reduce, fn_reduce_scatter, fn_all_gather, fn_broadcast, fn_reduce, fn_send, fn_recv };
enum { capture_relaxed = 2 };
enum { config_magic = 0xcafebeef, config_version = 21800, undefined = (int)0x80000000 };

void *ring_load(const char *path, int loaded, char *err, size_t n)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | (loaded ? RTLD_NOLOAD : 0));
	if (library == NULL) {
		const char *why = dlerror();
		snprintf(err, n, "%s", why ? why : "it is not loaded");
	}
	return library;
}

#define RESOLVE(needed, name, args) \
	*(void **)&t->name = dlsym(library, #name); \
	if (needed && t->name == NULL && *missing == NULL) \
		*missing = #name;

ring_cuda *ring_cuda_table(void *library, const char **missing)
{
	ring_cuda *t = calloc(1, sizeof *t);
	if (t == NULL)
		return NULL;
	RING_CUDA(RESOLVE)
	return t;
}

ring_nccl *ring_nccl_table(void *library, const char **missing)
{
	ring_nccl *t = calloc(1, sizeof *t);
	if (t == NULL)
		return NULL;
	RING_NCCL(RESOLVE)
	RING_NCCL_TEXTS(RESOLVE)
	return t;
}

int ring_library_path(void *function, char *path, size_t n)
{
	Dl_info info;
	if (function == NULL || dladdr(function, &info) == 0 || info.dli_fname == NULL)
		return 0;
	snprintf(path, n, "%s", info.dli_fname);
	return 1;
}

static int push(ring_gpu g) { return g.cuda ? g.cuda->cuCtxPushCurrent_v2((void *)g.context) : 0; }

static void pop(ring_gpu g)
{
	void *was;
	if (g.cuda)
		g.cuda->cuCtxPopCurrent_v2(&was);
}

/* Does what follows in the context of g, and returns its result. */
#define WITHIN(g, call) \
	do { \
		int rc = push(g); \
		if (rc == 0) { \
			rc = (call); \
			pop(g); \
		} \
		return rc; \
	} while (0)

int ring_gpu_open(const ring_cuda *cuda, int ordinal, ring_gpu *gpu, int *devices)
{
	int device, rc;
	if ((rc = cuda->cuInit(0)) != 0 || (rc = cuda->cuDeviceGetCount(devices)) != 0 || (rc = cuda->cuDeviceGet(&device, ordinal)) != 0)
		return rc;
	gpu->cuda = cuda;
	return cuda->cuDevicePrimaryCtxRetain((void **)&gpu->context, device);
}

int ring_gpu_close(ring_gpu g, int ordinal)
{
	int device, rc = g.cuda->cuDeviceGet(&device, ordinal);
	return rc ? rc : g.cuda->cuDevicePrimaryCtxRelease_v2(device);
}

int ring_alloc(ring_gpu g, size_t n, uint64_t *at) { WITHIN(g, g.cuda->cuMemAlloc_v2(at, n)); }
int ring_free(ring_gpu g, uint64_t at) { WITHIN(g, g.cuda->cuMemFree_v2(at)); }
int ring_host_alloc(ring_gpu g, size_t n, void **at) { WITHIN(g, g.cuda->cuMemHostAlloc(at, n, 1 /* portable */)); }
int ring_host_free(ring_gpu g, void *at) { WITHIN(g, g.cuda->cuMemFreeHost(at)); }
int ring_stream_new(ring_gpu g, uintptr_t *stream) { WITHIN(g, g.cuda->cuStreamCreate((void **)stream, 1 /* non-blocking */)); }
int ring_stream_free(ring_gpu g, uintptr_t stream) { WITHIN(g, g.cuda->cuStreamDestroy_v2((void *)stream)); }
int ring_event_new(ring_gpu g, uintptr_t *event) { WITHIN(g, g.cuda->cuEventCreate((void **)event, 2 /* without times */)); }
int ring_event_free(ring_gpu g, uintptr_t event) { WITHIN(g, g.cuda->cuEventDestroy_v2((void *)event)); }
int ring_event_record(ring_gpu g, uintptr_t event, uintptr_t stream) { WITHIN(g, g.cuda->cuEventRecord((void *)event, (void *)stream)); }

/* While any thread of the process captures a graph, what asks fails, and breaks the capture, in a thread that has not said that it knows. */
static int ask(ring_gpu g, int (*query)(void *), uintptr_t handle)
{
	int mode = capture_relaxed, rc;
	int (*exchange)(int *) = g.cuda->cuThreadExchangeStreamCaptureMode;
	int changed = exchange && exchange(&mode) == 0;
	rc = query((void *)handle);
	if (changed)
		exchange(&mode);
	return rc;
}

int ring_stream_query(ring_gpu g, uintptr_t stream) { WITHIN(g, ask(g, g.cuda->cuStreamQuery, stream)); }
int ring_event_query(ring_gpu g, uintptr_t event) { WITHIN(g, ask(g, g.cuda->cuEventQuery, event)); }

static int then_record(ring_gpu g, int rc, uintptr_t stream, uintptr_t event) { return rc ? rc : g.cuda->cuEventRecord((void *)event, (void *)stream); }

int ring_copy_in(ring_gpu g, uint64_t dst, const void *src, size_t n, uintptr_t stream, uintptr_t event)
{
	WITHIN(g, then_record(g, g.cuda->cuMemcpyHtoDAsync_v2(dst, src, n, (void *)stream), stream, event));
}

int ring_copy_out(ring_gpu g, void *dst, uint64_t src, size_t n, uintptr_t stream, uintptr_t event)
{
	WITHIN(g, then_record(g, g.cuda->cuMemcpyDtoHAsync_v2(dst, src, n, (void *)stream), stream, event));
}

void ring_cuda_error_name(const ring_cuda *cuda, int rc, const char **name)
{
	if (cuda->cuGetErrorName(rc, name) != 0)
		*name = NULL;
}

int ring_nccl_version(const ring_nccl *t, int *version) { return t->ncclGetVersion(version); }
int ring_nccl_unique_id(const ring_nccl *t, ring_nccl_id *id) { return t->ncclGetUniqueId(id); }

void ring_nccl_last_error(const ring_nccl *t, uintptr_t comm, char *text, size_t n)
{
	const char *last = t->ncclGetLastError ? t->ncclGetLastError((void *)comm) : NULL; /* takes no comm for the thread's last one */
	snprintf(text, n, "%s", last ? last : "");
}

/* config_size is how much of the configuration a version knows. */
static size_t config_size(int version)
{
	if (version < 21700)
		return offsetof(ring_nccl_config, cga) + sizeof(int); /* with its padding */
	return version < 21800 ? offsetof(ring_nccl_config, split_share) : sizeof(ring_nccl_config);
}

int ring_nccl_init(ring_gpu g, const ring_nccl *t, uintptr_t *comm, int n, const void *id, int rank, int version, int *cuda)
{
	ring_nccl_id unique;
	ring_nccl_config config = {
		.size = config_size(version), .magic = config_magic, .version = version < config_version ? version : config_version,
		.cga = undefined, .min_ctas = undefined, .max_ctas = undefined, .split_share = undefined,
	};
	int rc;
	memcpy(&unique, id, sizeof unique);
	if ((*cuda = push(g)) != 0)
		return nccl_unhandled_cuda;
	if (t->ncclCommInitRankConfig)
		rc = t->ncclCommInitRankConfig((void **)comm, n, unique, rank, &config);
	else
		rc = t->ncclCommInitRank((void **)comm, n, unique, rank);
	pop(g);
	return rc;
}

static int step(const ring_nccl *t, void *comm, const ring_step *s, void *stream)
{
	const void *send = (const void *)s->send;
	void *recv = (void *)s->recv;
	switch (s->fn) {
	case fn_all_gather: return t->ncclAllGather(send, recv, s->count, s->type, comm, stream);
	case fn_broadcast: return t->ncclBroadcast(send, recv, s->count, s->type, s->peer, comm, stream);
	case fn_send: return t->ncclSend(send, s->count, s->type, s->peer, comm, stream);
	case fn_recv: return t->ncclRecv(recv, s->count, s->type, s->peer, comm, stream);
	}
	int op = s->op, rc = nccl_success;
	if (s->scaled) {
		uint64_t scale = s->scale;
		if ((rc = t->ncclRedOpCreatePreMulSum(&op, &scale, s->type, 1 /* in host memory, read now */, comm)) != nccl_success)
			return rc;
	}
	switch (s->fn) {
	case fn_all_reduce: rc = t->ncclAllReduce(send, recv, s->count, s->type, op, comm, stream); break;
	case fn_reduce_scatter: rc = t->ncclReduceScatter(send, recv, s->count, s->type, op, comm, stream); break;
	case fn_reduce: rc = t->ncclReduce(send, recv, s->count, s->type, op, s->peer, comm, stream); break;
	}
	if (s->scaled) /* the call has taken what it needs of it */
		t->ncclRedOpDestroy(op, comm);
	return rc;
}

static int failed(int rc) { return rc != nccl_success && rc != nccl_in_progress; }

int ring_nccl_launch(ring_gpu g, const ring_nccl *t, uintptr_t comm, const ring_step *steps, int n, uintptr_t stream, uintptr_t event, int *cuda)
{
	int rc = nccl_success;
	if ((*cuda = push(g)) != 0)
		return nccl_unhandled_cuda;
	if (n > 1)
		rc = t->ncclGroupStart();
	for (int i = 0; i < n && !failed(rc); i++)
		rc = step(t, (void *)comm, &steps[i], (void *)stream);
	if (n > 1) {
		int end = t->ncclGroupEnd(); /* also after a failure, else the thread stays in the group */
		rc = failed(rc) ? rc : end;
	}
	if (rc == nccl_success && (*cuda = g.cuda->cuEventRecord((void *)event, (void *)stream)) != 0)
		rc = nccl_unhandled_cuda;
	pop(g);
	return rc;
}

int ring_nccl_end(ring_gpu g, int (*fn)(void *), uintptr_t comm, int *cuda)
{
	if ((*cuda = push(g)) != 0)
		return nccl_unhandled_cuda;
	int rc = fn((void *)comm);
	pop(g);
	return rc;
}

int ring_nccl_state(ring_gpu g, const ring_nccl *t, uintptr_t comm, int *cuda)
{
	int state = nccl_success, rc;
	if ((*cuda = push(g)) != 0)
		return nccl_unhandled_cuda;
	rc = t->ncclCommGetAsyncError((void *)comm, &state);
	pop(g);
	return rc != nccl_success ? rc : state;
}
