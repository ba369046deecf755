/*
 * The functions of ring.h. Each refuses to go on in a forked child, hands its thread's ring_failure to the Go function that
 * does the work, and nothing else.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "_cgo_export.h"

/* A thread's own memory. It is not _Thread_local: Go's code makes all of a library's TLS static, and a program that loads
 * the library late has only some hundred bytes of that to give. */
typedef struct own {
	ring_failure failure;
	char version[128];
} own;

uint64_t given;

static pthread_key_t key;
static atomic_int forked;

/* Descriptors that a child closes, a bit each: while it had them, the other ranks would not see this one end. Of
 * descriptors beyond these none is. */
static atomic_ulong held[1024];
#define BITS (8 * sizeof held[0])

void hold_descriptor(int fd, int open)
{
	if (fd < 0 || (size_t)fd >= sizeof held * 8)
		return;
	unsigned long bit = 1UL << fd % BITS;
	if (open)
		atomic_fetch_or(&held[fd / BITS], bit);
	else
		atomic_fetch_and(&held[fd / BITS], ~bit);
}

static void in_child(void)
{
	atomic_store_explicit(&forked, 1, memory_order_relaxed);
	for (size_t i = 0; i < sizeof held / sizeof held[0]; i++) {
		unsigned long bits = atomic_exchange(&held[i], 0); /* a child of the child may have others there */
		for (size_t n = 0; bits != 0; n++, bits >>= 1)
			if (bits & 1)
				close(i * BITS + n);
	}
}

/* A library that was loaded and not used before a fork has threads as well, so it watches from the time when it is loaded. */
__attribute__((constructor)) static void begin(void)
{
	pthread_key_create(&key, free);
	pthread_atfork(NULL, NULL, in_child);
}

static own *mine(void)
{
	static own shared = {.failure = {.rank = -1}}; /* of threads for which there is no memory */
	own *o = pthread_getspecific(key);
	if (o != NULL)
		return o;
	if ((o = calloc(1, sizeof *o)) == NULL || pthread_setspecific(key, o) != 0) {
		free(o);
		return &shared;
	}
	o->failure.rank = -1;
	return o;
}

static int refused(void)
{
	if (!atomic_load_explicit(&forked, memory_order_relaxed))
		return 0;
	ring_failure *failure = &mine()->failure;
	failure->rank = -1;
	snprintf(failure->text, sizeof failure->text, "ring: this process is a fork of the one that loaded the library, and has none of its threads: "
		"start workers that use the ring as programs of their own (in Python: the start method \"spawn\" or \"forkserver\")");
	return 1;
}

#define CALL(call) (refused() ? RING_FORKED : (call))

uint32_t ring_abi(void) { return RING_ABI; }

const char *ring_version(void)
{
	own *o = mine();
	if (!refused())
		goRingVersion(o->version, sizeof o->version);
	return o->version;
}

const char *ring_error_name(int code)
{
	static const char *const names[] = {"RING_OK", "RING_INVALID", "RING_MISMATCH", "RING_PEER", "RING_CLOSED",
		"RING_TIMEOUT", "RING_DUPLICATE", "RING_FORKED", "RING_INTERNAL", "RING_NO_GPU"};
	return code >= 0 && code < (int)(sizeof names / sizeof names[0]) ? names[code] : "RING_UNKNOWN";
}

const char *ring_last_error(void) { return mine()->failure.text; }

int32_t ring_failed_rank(void) { return mine()->failure.rank; }

int ring_error_text(uint64_t handle, char *text, size_t size) { return CALL(goRingErrorText(handle, text, size, &mine()->failure)); }

int ring_init(ring_comm *comm, const ring_init_options *options) { return CALL(goRingInit(comm, (ring_init_options *)options, &mine()->failure)); }

int ring_close(ring_comm comm) { return CALL(goRingClose(comm, &mine()->failure)); }

int ring_split(ring_comm comm, int32_t color, int32_t key, ring_comm *part) { return CALL(goRingSplit(comm, color, key, part, &mine()->failure)); }

int ring_group(ring_comm comm, const char *name, const int32_t *ranks, size_t count, int64_t timeout_ms, ring_comm *part)
{
	return CALL(goRingGroup(comm, (char *)name, (int32_t *)ranks, count, timeout_ms, part, &mine()->failure));
}

int ring_waits_at(uint64_t comm_or_queue, const char *place) { return CALL(goRingWaitsAt(comm_or_queue, (char *)place, &mine()->failure)); }
int ring_abort(ring_comm comm, const char *cause) { return CALL(goRingAbort(comm, (char *)cause, &mine()->failure)); }
int ring_private(ring_comm comm) { return CALL(goRingPrivate(comm, &mine()->failure)); }

int ring_comm_info(ring_comm comm, ring_info *info) { return CALL(goRingInfo(comm, info, &mine()->failure)); }

int ring_check_hosts(ring_comm comm, int *updated) { return CALL(goRingCheckHosts(comm, updated, &mine()->failure)); }

int ring_hosts_updated(ring_comm comm, int *updated) { return CALL(goRingHostsUpdated(comm, updated, &mine()->failure)); }

int ring_run(ring_comm comm, const ring_call *call, int64_t timeout_ms) { return CALL(goRingRun(comm, (ring_call *)call, timeout_ms, &mine()->failure)); }

int ring_start_here(ring_comm comm, const ring_call *call, ring_request *request) { return CALL(goRingStart(comm, (ring_call *)call, 1, request, &mine()->failure)); }
int ring_start(ring_comm comm, const ring_call *call, ring_request *request) { return CALL(goRingStart(comm, (ring_call *)call, 0, request, &mine()->failure)); }

int ring_poll(ring_request request, int *done) { return CALL(goRingPoll(request, done, &mine()->failure)); }

int ring_wait(ring_request request, int64_t timeout_ms) { return CALL(goRingWait(request, timeout_ms, &mine()->failure)); }

int ring_release(ring_request request) { return CALL(goRingRelease(request, &mine()->failure)); }

int ring_result(ring_request request, void **data, uint64_t *count, const int64_t **counts)
{
	return CALL(goRingResult(request, data, count, (int64_t **)counts, &mine()->failure));
}

int ring_queue_open(ring_comm comm, const ring_queue_options *options, ring_queue *queue)
{
	return CALL(goRingQueueOpen(comm, (ring_queue_options *)options, queue, &mine()->failure));
}

int ring_queue_close(ring_queue queue) { return CALL(goRingQueueClose(queue, &mine()->failure)); }

int ring_submit(ring_queue queue, const char *name, const ring_call *call, ring_request *request)
{
	return CALL(goRingSubmit(queue, (char *)name, (ring_call *)call, 0, request, &mine()->failure));
}

int ring_submit_here(ring_queue queue, const char *name, const ring_call *call, ring_request *request)
{
	return CALL(goRingSubmit(queue, (char *)name, (ring_call *)call, 1, request, &mine()->failure));
}

int ring_join(ring_queue queue, int32_t *last, ring_request *request)
{
	return CALL(goRingJoin(queue, last, request, &mine()->failure));
}

int ring_submit_group(ring_queue queue, size_t count, const char *const *names, const ring_call *calls, ring_request *requests)
{
	return CALL(goRingSubmitGroup(queue, count, (char **)names, (ring_call *)calls, requests, &mine()->failure));
}

int ring_submit_v(ring_queue queue, const char *name, const ring_call *call, ring_request *request)
{
	return CALL(goRingSubmitV(queue, (char *)name, (ring_call *)call, request, &mine()->failure));
}

int ring_submit_device(ring_queue queue, int32_t ordinal, void *stream, size_t count, const char *const *names, const ring_call *calls, ring_request *requests)
{
	return CALL(goRingSubmitDevice(queue, ordinal, (uintptr_t)stream, count, (char **)names, (ring_call *)calls, requests, &mine()->failure));
}

int ring_device_open(ring_comm comm, int32_t ordinal, const ring_device_options *options, ring_device *device)
{
	return CALL(goRingDeviceOpen(comm, ordinal, (ring_device_options *)options, device, &mine()->failure));
}

int ring_device_close(ring_device device) { return CALL(goRingDeviceClose(device, &mine()->failure)); }

int ring_device_get_info(ring_device device, ring_device_info *info) { return CALL(goRingDeviceInfo(device, info, &mine()->failure)); }

int ring_device_run(ring_device device, void *stream, size_t count, const ring_call *calls, const double *scales)
{
	return CALL(goRingDeviceRun(device, (uintptr_t)stream, count, (ring_call *)calls, (double *)scales, &mine()->failure));
}

int ring_device_wait(ring_device device, int64_t timeout_ms) { return CALL(goRingDeviceWait(device, timeout_ms, &mine()->failure)); }

int ring_device_error(ring_device device) { return CALL(goRingDeviceError(device, &mine()->failure)); }

int ring_timeline_start(ring_queue queue, const char *path, int mark_cycles)
{
	return CALL(goRingTimelineStart(queue, (char *)path, mark_cycles, &mine()->failure));
}

int ring_timeline_stop(ring_queue queue) { return CALL(goRingTimelineStop(queue, &mine()->failure)); }

/* The calls that need no struct. */

static int run(ring_comm comm, ring_call call)
{
	call.size = sizeof call;
	return ring_run(comm, &call, 0);
}

int ring_allreduce(ring_comm comm, void *dst, const void *src, uint64_t count, int32_t dtype, int32_t op)
{
	return run(comm, (ring_call){.kind = RING_ALLREDUCE, .dtype = dtype, .op = op, .dst = dst, .dst_count = count, .src = src, .src_count = count});
}

int ring_reduce(ring_comm comm, void *dst, const void *src, uint64_t count, int32_t dtype, int32_t op, int32_t root)
{
	return run(comm, (ring_call){.kind = RING_REDUCE, .dtype = dtype, .op = op, .root = root,
		.dst = dst, .dst_count = dst ? count : 0, .src = src, .src_count = count});
}

/* each is count for each rank; UINT64_MAX, which no call takes, if that is too many or comm is none. */
static uint64_t each(ring_comm comm, uint64_t count)
{
	ring_info info = {.size = sizeof info};
	if (ring_comm_info(comm, &info) != RING_OK || count > UINT64_MAX / (uint64_t)info.ranks)
		return UINT64_MAX;
	return count * (uint64_t)info.ranks;
}

int ring_reduce_scatter(ring_comm comm, void *dst, const void *src, uint64_t count, int32_t dtype, int32_t op)
{
	return run(comm, (ring_call){.kind = RING_REDUCE_SCATTER, .dtype = dtype, .op = op,
		.dst = dst, .dst_count = count, .src = src, .src_count = each(comm, count)});
}

int ring_allgather(ring_comm comm, void *dst, const void *src, uint64_t count, int32_t dtype)
{
	return run(comm, (ring_call){.kind = RING_ALLGATHER, .dtype = dtype, .dst = dst, .dst_count = each(comm, count), .src = src, .src_count = count});
}

int ring_alltoall(ring_comm comm, void *dst, const void *src, uint64_t count, int32_t dtype)
{
	uint64_t all = each(comm, count);
	return run(comm, (ring_call){.kind = RING_ALLTOALL, .dtype = dtype, .dst = dst, .dst_count = all, .src = src, .src_count = all});
}

int ring_broadcast(ring_comm comm, void *buf, uint64_t count, int32_t dtype, int32_t root)
{
	return run(comm, (ring_call){.kind = RING_BROADCAST, .dtype = dtype, .root = root, .dst = buf, .dst_count = count});
}

int ring_barrier(ring_comm comm) { return run(comm, (ring_call){.kind = RING_BARRIER}); }

int ring_send(ring_comm comm, const void *src, uint64_t count, int32_t dtype, int32_t to)
{
	return run(comm, (ring_call){.kind = RING_MESSAGE, .dtype = dtype, .to = to, .from = -1, .src = src, .src_count = count});
}

int ring_recv(ring_comm comm, void *dst, uint64_t count, int32_t dtype, int32_t from)
{
	return run(comm, (ring_call){.kind = RING_MESSAGE, .dtype = dtype, .to = -1, .from = from, .dst = dst, .dst_count = count});
}
