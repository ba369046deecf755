/* What ring uses of libcuda and libnccl. The tables are the whole of it: a function that is not in them is not called. */
#ifndef RING_NCCL_SHIM_H
#define RING_NCCL_SHIM_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden) /* libring.so gives out the names of ring.h only */

typedef struct { char bytes[128]; } ring_nccl_id;

/* The fields that ncclConfig_t had in 2.18. Later versions take it as it is. */
typedef struct {
	size_t size;
	unsigned magic, version;
	int blocking, cga, min_ctas, max_ctas;
	const char *net;
	int split_share;
} ring_nccl_config;

/* X(needed, name, arguments); all return int unless they are said to return text. The names with a version are the
 * driver's own: those without are for 32 bits. */
#define RING_CUDA(X) \
	X(1, cuInit, (unsigned)) \
	X(1, cuDriverGetVersion, (int *)) \
	X(1, cuDeviceGetCount, (int *)) \
	X(1, cuDeviceGet, (int *, int)) \
	X(1, cuDevicePrimaryCtxRetain, (void **, int)) \
	X(1, cuDevicePrimaryCtxRelease_v2, (int)) \
	X(1, cuCtxPushCurrent_v2, (void *)) \
	X(1, cuCtxPopCurrent_v2, (void **)) \
	X(1, cuStreamCreate, (void **, unsigned)) \
	X(1, cuStreamDestroy_v2, (void *)) \
	X(1, cuStreamQuery, (void *)) \
	X(1, cuEventCreate, (void **, unsigned)) \
	X(1, cuEventDestroy_v2, (void *)) \
	X(1, cuEventRecord, (void *, void *)) \
	X(1, cuEventQuery, (void *)) \
	X(0, cuThreadExchangeStreamCaptureMode, (int *)) \
	X(1, cuMemAlloc_v2, (uint64_t *, size_t)) \
	X(1, cuMemFree_v2, (uint64_t)) \
	X(1, cuMemHostAlloc, (void **, size_t, unsigned)) \
	X(1, cuMemFreeHost, (void *)) \
	X(1, cuMemcpyHtoDAsync_v2, (uint64_t, const void *, size_t, void *)) \
	X(1, cuMemcpyDtoHAsync_v2, (void *, uint64_t, size_t, void *)) \
	X(1, cuGetErrorName, (int, const char **))

#define RING_NCCL(X) \
	X(1, ncclGetVersion, (int *)) \
	X(1, ncclGetUniqueId, (ring_nccl_id *)) \
	X(1, ncclCommInitRank, (void **, int, ring_nccl_id, int)) \
	X(0, ncclCommInitRankConfig, (void **, int, ring_nccl_id, int, ring_nccl_config *)) \
	X(0, ncclCommFinalize, (void *)) \
	X(1, ncclCommDestroy, (void *)) \
	X(1, ncclCommAbort, (void *)) \
	X(1, ncclCommGetAsyncError, (void *, int *)) \
	X(1, ncclAllReduce, (const void *, void *, size_t, int, int, void *, void *)) \
	X(1, ncclReduceScatter, (const void *, void *, size_t, int, int, void *, void *)) \
	X(1, ncclAllGather, (const void *, void *, size_t, int, void *, void *)) \
	X(1, ncclBroadcast, (const void *, void *, size_t, int, int, void *, void *)) \
	X(1, ncclReduce, (const void *, void *, size_t, int, int, int, void *, void *)) \
	X(1, ncclSend, (const void *, size_t, int, int, void *, void *)) \
	X(1, ncclRecv, (void *, size_t, int, int, void *, void *)) \
	X(1, ncclGroupStart, (void)) \
	X(1, ncclGroupEnd, (void)) \
	X(0, ncclRedOpCreatePreMulSum, (int *, void *, int, int, void *)) \
	X(0, ncclRedOpDestroy, (int, void *))

#define RING_NCCL_TEXTS(X) \
	X(0, ncclGetLastError, (void *))

#define RING_NUMBER(needed, name, args) int (*name) args;
#define RING_TEXT(needed, name, args) const char *(*name) args;

typedef struct { RING_CUDA(RING_NUMBER) } ring_cuda;
typedef struct { RING_NCCL(RING_NUMBER) RING_NCCL_TEXTS(RING_TEXT) } ring_nccl;

/* A context of a GPU, and the driver that it is of. Without a driver (cuda is NULL) it is no context at all. Handles are numbers,
 * because some are small ones (streams 1 and 2), which a pointer of Go must not be. */
typedef struct {
	const ring_cuda *cuda;
	uintptr_t context;
} ring_gpu;

/* One call of NCCL; fn is as in step.go. */
typedef struct {
	int32_t fn, type, op, peer;
	uintptr_t send, recv;
	size_t count;
	uint64_t scale; /* if scaled: the bits of a number of that type */
	int32_t scaled, unused;
} ring_step;

/* They load a library, which stays loaded. NULL: err says why. Missing: the name of a needed function that is not there. */
void *ring_load(const char *path, int loaded, char *err, size_t n);
ring_cuda *ring_cuda_table(void *library, const char **missing);
ring_nccl *ring_nccl_table(void *library, const char **missing);
int ring_library_path(void *function, char *path, size_t n);

int ring_gpu_open(const ring_cuda *cuda, int ordinal, ring_gpu *gpu, int *devices);
int ring_gpu_close(ring_gpu gpu, int ordinal);
int ring_alloc(ring_gpu gpu, size_t n, uint64_t *at);
int ring_free(ring_gpu gpu, uint64_t at);
int ring_host_alloc(ring_gpu gpu, size_t n, void **at);
int ring_host_free(ring_gpu gpu, void *at);
int ring_copy_in(ring_gpu gpu, uint64_t dst, const void *src, size_t n, uintptr_t stream, uintptr_t event);
int ring_copy_out(ring_gpu gpu, void *dst, uint64_t src, size_t n, uintptr_t stream, uintptr_t event);
int ring_stream_new(ring_gpu gpu, uintptr_t *stream);
int ring_stream_free(ring_gpu gpu, uintptr_t stream);
int ring_stream_query(ring_gpu gpu, uintptr_t stream);
int ring_event_new(ring_gpu gpu, uintptr_t *event);
int ring_event_free(ring_gpu gpu, uintptr_t event);
int ring_event_record(ring_gpu gpu, uintptr_t event, uintptr_t stream);
int ring_event_query(ring_gpu gpu, uintptr_t event);

void ring_cuda_error_name(const ring_cuda *cuda, int rc, const char **name);
int ring_nccl_version(const ring_nccl *nccl, int *version);
int ring_nccl_unique_id(const ring_nccl *nccl, ring_nccl_id *id);
void ring_nccl_last_error(const ring_nccl *nccl, uintptr_t comm, char *text, size_t n);

/* They return a result of NCCL; cuda gets that of the driver when it is not 0, and the call was not made. */
int ring_nccl_init(ring_gpu gpu, const ring_nccl *nccl, uintptr_t *comm, int n, const void *id, int rank, int version, int *cuda);
int ring_nccl_launch(ring_gpu gpu, const ring_nccl *nccl, uintptr_t comm, const ring_step *steps, int n, uintptr_t stream, uintptr_t event, int *cuda);
int ring_nccl_end(ring_gpu gpu, int (*fn)(void *), uintptr_t comm, int *cuda);
int ring_nccl_state(ring_gpu gpu, const ring_nccl *nccl, uintptr_t comm, int *cuda);

#pragma GCC visibility pop

#endif
