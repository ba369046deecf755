/*
 * ring.h: gorun's collectives for C, and for every language that can call C.
 *
 * A process that gorun started joins the other ranks of its job with ring_init; any other process is a world of one.
 * Ranks make the same calls in the same order (ring_run, ring_start), or submit named calls in any order to a queue
 * (ring_submit). Link with -lring.
 *
 *     ring_comm comm;
 *     if (ring_init(&comm, NULL) != RING_OK) { fprintf(stderr, "%s\n", ring_last_error()); exit(1); }
 *     float x[2] = {1, 2};
 *     if (ring_allreduce(comm, x, x, 2, RING_FLOAT32, RING_SUM) != RING_OK) ...
 *     ring_close(comm);
 *
 * Every function returns RING_OK or another ring_error; ring_last_error returns the text. All functions are safe for
 * concurrent use. gorun's docs/ring.md explains the collectives, and what breaks a communicator.
 *
 * The library uses the memory of a call until the call is done: until ring_run returns, or ring_wait reports the
 * request done. Names, calls, counts and shapes are copied at once.
 *
 * In a child of fork(2) every function fails with RING_FORKED, because threads do not survive a fork. Start workers that
 * need the library as new programs (spawn). A child that does not use it is not affected.
 *
 * The library installs no handler for SIGINT, SIGTERM or SIGCHLD, and passes foreign faults to earlier handlers.
 */
#ifndef RING_H
#define RING_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The number of this interface. It changes when programs that were built for it would break. Structs may grow at
 * their end without a change: set their member size to the struct's sizeof. */
#define RING_ABI 1
uint32_t ring_abi(void);

/* Returns the library's version of gorun, such as "v1.2.0". */
const char *ring_version(void);

typedef enum ring_error {
	RING_OK = 0,
	RING_INVALID = 1,     /* wrong arguments: nothing was sent */
	RING_MISMATCH = 2,    /* the ranks' calls differ; in a queue only this name fails */
	RING_PEER = 3,        /* a rank or host failed, or timed out; the communicator is broken. See ring_failed_rank */
	RING_CLOSED = 4,      /* this rank closed the communicator or queue */
	RING_TIMEOUT = 5,     /* ring_wait: the request goes on. ring_run, ring_init: the communicator is broken */
	RING_DUPLICATE = 6,   /* a pending request uses the name */
	RING_FORKED = 7,      /* this process is a forked child of the one that loaded the library */
	RING_INTERNAL = 8,    /* a bug in the library: please report the text */
	RING_NO_GPU = 9       /* this rank or another has no GPU or driver; the communicator stays usable */
} ring_error;

/* Returns the name of an error, such as "RING_PEER". */
const char *ring_error_name(int code);

/* Returns the text of this thread's last error. It is valid until the thread's next error. */
const char *ring_last_error(void);

/* Copies the text of the last error of a communicator, a queue, or a failed and unreleased request, truncated to
 * size bytes with a final 0. */
int ring_error_text(uint64_t handle, char *text, size_t size);

/* Element types. Up to 63 the numbers are those of ncclDataType_t. */
typedef enum ring_dtype {
	RING_INT8 = 0,
	RING_UINT8 = 1,
	RING_INT32 = 2,
	RING_INT64 = 4,
	RING_UINT64 = 5,
	RING_FLOAT16 = 6,
	RING_FLOAT32 = 7,
	RING_FLOAT64 = 8,
	RING_BFLOAT16 = 9,
	RING_BOOL = 64, /* a byte, 0 or 1 */
	RING_INT16 = 65
} ring_dtype;

/* Reductions. Up to 63 the numbers are those of ncclRedOp_t. Sums of integers wrap around; their averages are
 * truncated towards zero. For RING_BOOL sum and max mean or, prod and min mean and. */
typedef enum ring_op {
	RING_SUM = 0,
	RING_PROD = 1,
	RING_MAX = 2,
	RING_MIN = 3,
	RING_AVG = 4,
	RING_BAND = 64,
	RING_BOR = 65,
	RING_BXOR = 66
} ring_op;

typedef enum ring_kind {
	RING_BARRIER = 1,
	RING_BROADCAST = 2,      /* dst: n. root */
	RING_ALLGATHER = 3,      /* dst: n of each rank, src: n. counts for different parts */
	RING_ALLREDUCE = 4,      /* dst, src: n. op */
	RING_REDUCE = 5,         /* dst: n at the root, src: n. op, root */
	RING_REDUCE_SCATTER = 6, /* dst: n, src: n of each rank. op; counts for different parts */
	RING_GATHER = 7,         /* dst: n of each rank at the root, src: n. root; counts */
	RING_SCATTER = 8,        /* dst: n, src: n of each rank at the root. root; counts */
	RING_ALLTOALL = 9,       /* dst, src: n of each rank. counts and sends for different parts */
	RING_MESSAGE = 10        /* dst: from rank from, src: to rank to; -1 for none */
} ring_kind;

/* A call. Leave members that a kind does not use at 0. Lengths are in elements. */
typedef struct ring_call {
	size_t size; /* sizeof(ring_call) */
	int32_t kind;
	int32_t dtype;
	int32_t op;
	int32_t root;
	int32_t to, from;
	void *dst;
	uint64_t dst_count;
	const void *src; /* may be dst, or this rank's own part of dst or src */
	uint64_t src_count;
	const int64_t *counts; /* NULL, or for each rank the length of its part, or of what it sends to this rank */
	const int64_t *sends;  /* of an alltoall, with counts: the length sent to each rank */
	const char *shape;     /* NULL, or for a submitted call: a text that must be equal on all ranks, such as "32x16";
	                        * for an allgather or alltoall without the first dimension. It is only compared */
} ring_call;

typedef uint64_t ring_comm;
typedef uint64_t ring_queue;
typedef uint64_t ring_request;

typedef struct ring_init_options {
	size_t size;
	int64_t timeout_ms; /* for all ranks to join; 0 or less: no limit but gorun's */
	int64_t stall_ms;   /* gorun reports a call that has waited this long for ranks; 0: 25 s, less: never */
	int64_t left_epoch; /* in an elastic job: the epoch that this process has left; 0: none */
} ring_init_options;

/* Joins the job. options may be NULL. In an elastic job it waits for an epoch after left_epoch. */
int ring_init(ring_comm *comm, const ring_init_options *options);

/* Leaves the job, or a part made by ring_split or ring_group. Pending requests fail; wait for or release all
 * requests nevertheless. Close after the last call. */
int ring_close(ring_comm comm);

/* Makes a communicator of the ranks with the same color, in the order of key, then rank. All ranks of comm call it.
 * A rank with a negative color gets 0. */
int ring_split(ring_comm comm, int32_t color, int32_t key, ring_comm *part);

/* Makes a communicator of count ranks of comm, in their order. Only those ranks call it, with the same ranks and a
 * name that no other group of comm had. It waits for them for timeout_ms (0 or less: no limit). comm survives an
 * error. */
int ring_group(ring_comm comm, const char *name, const int32_t *ranks, size_t count, int64_t timeout_ms, ring_comm *part);

/* Makes the loss of a rank in comm an error of comm's calls only: ranks may leave comm while others wait for them, and
 * the job goes on. gorun still notices processes that end. Call it before comm's first call. */
int ring_private(ring_comm comm);

/* Ends the job, as MPI_Abort does: an elastic one begins no other epoch. Calls that wait for this rank fail with
 * RING_PEER, and their text names it and cause. */
int ring_abort(ring_comm comm, const char *cause);

typedef struct ring_info {
	size_t size;
	int32_t rank, ranks;
	int32_t local_rank, local_ranks; /* on this host */
	int32_t cross_rank, cross_ranks; /* among the hosts with this local rank */
	char host[256];                  /* as the user wrote it */
	int32_t epoch;                   /* of an elastic job, from 1; 0 in other jobs */
	int32_t first_epoch;             /* that ring_init first tried to join; below epoch if that one failed */
} ring_info;
int ring_comm_info(ring_comm comm, ring_info *info);

/* Elastic jobs: after RING_PEER, or when hosts have joined or will leave, ranks close their communicator and join
 * the next epoch by ring_init with left_epoch. ring_check_hosts sets updated to the same value on all ranks, not 0
 * if hosts have changed; all ranks call it at the same point. ring_hosts_updated reports only what this rank knows.
 * In other jobs updated is 0. */
int ring_check_hosts(ring_comm comm, int *updated);
int ring_hosts_updated(ring_comm comm, int *updated);

/* Makes a call and returns when this rank's part is done. A timeout (0 or less: none) breaks the communicator. */
int ring_run(ring_comm comm, const ring_call *call, int64_t timeout_ms);

/* ring_run for common kinds. count is the length of src and dst; for a reduce-scatter the length of dst, for an
 * allgather of src, for an alltoall of one rank's part. */
int ring_allreduce(ring_comm comm, void *dst, const void *src, uint64_t count, int32_t dtype, int32_t op);
int ring_reduce(ring_comm comm, void *dst, const void *src, uint64_t count, int32_t dtype, int32_t op, int32_t root);
int ring_reduce_scatter(ring_comm comm, void *dst, const void *src, uint64_t count, int32_t dtype, int32_t op);
int ring_allgather(ring_comm comm, void *dst, const void *src, uint64_t count, int32_t dtype);
int ring_alltoall(ring_comm comm, void *dst, const void *src, uint64_t count, int32_t dtype);
int ring_broadcast(ring_comm comm, void *buf, uint64_t count, int32_t dtype, int32_t root);
int ring_barrier(ring_comm comm);
int ring_send(ring_comm comm, const void *src, uint64_t count, int32_t dtype, int32_t to);
int ring_recv(ring_comm comm, void *dst, uint64_t count, int32_t dtype, int32_t from);

/* Starts a call and returns at once. Calls run in the order in which they are started. */
int ring_start(ring_comm comm, const ring_call *call, ring_request *request);

/* ring_start for a caller that waits at once: if all other ranks come to the call within some microseconds, or a message
 * of RING_MESSAGE can be handed over by then, it runs in this thread, which is faster, and request is 0 when it returns,
 * with the call's error. */
int ring_start_here(ring_comm comm, const ring_call *call, ring_request *request);

/* Sets done to 1 if a request is done, without waiting. Wait for the request nevertheless. */
int ring_poll(ring_request request, int *done);

/* Waits until a request is done, at most timeout_ms (less than 0: no limit); RING_TIMEOUT if it is not. Success
 * frees the request, unless it is one of ring_submit_v; release all others. Several threads may wait for one
 * request; after it is freed they get RING_INVALID. */
int ring_wait(ring_request request, int64_t timeout_ms);

/* Sets where in the program this rank waits for a call of a communicator or queue, such as "train.py:42": gorun's report
 * of a stall names it. NULL or "": unknown, as at first. */
int ring_waits_at(uint64_t comm_or_queue, const char *place);

/* Frees a finished request with its result and error text, after the last thread that waits for it. */
int ring_release(ring_request request);

typedef struct ring_queue_options {
	size_t size;
	int64_t fusion_bytes; /* most bytes fused into one allreduce; less than 0: 64 MiB, 0: no fusion */
	int64_t cache_names;  /* names sent as numbers; less than 0: 1024 */
	int64_t stall_ms;     /* gorun reports a name that has waited this long for ranks; 0 or less: 25 s */
} ring_queue_options;

/* Makes a queue. All ranks of comm call it, with equal fusion_bytes and cache_names. options may be NULL. Close it
 * before comm, after all its requests are done on all ranks. */
int ring_queue_open(ring_comm comm, const ring_queue_options *options, ring_queue *queue);
int ring_queue_close(ring_queue queue);

/* Submits a named call (0-terminated UTF-8) and returns at once. It runs when all ranks have submitted the name.
 * Kinds are allreduce, broadcast, reduce-scatter, barrier, and allgather and alltoall of equal parts. */
int ring_submit(ring_queue queue, const char *name, const ring_call *call, ring_request *request);

/* ring_submit that runs the call in this thread if nothing else is in flight, which is faster. It returns when the
 * call is done, with its error and request 0, or with a request if it must wait for other ranks. While ranks answer,
 * about a second at most unless one is stopped, it cannot be interrupted. */
int ring_submit_here(ring_queue queue, const char *name, const ring_call *call, ring_request *request);

/* Declares that this rank has no more data to submit. Until all ranks have joined, it contributes zeros to
 * allreduces of RING_SUM and RING_AVG and takes part in barriers; other calls fail with RING_MISMATCH on the others.
 * The request is done when all have joined; ring_wait then writes the rank that joined last to last. */
int ring_join(ring_queue queue, int32_t *last, ring_request *request);

/* Submits count calls together, so that they can be fused. After an error none was submitted. */
int ring_submit_group(ring_queue queue, size_t count, const char *const *names, const ring_call *calls, ring_request *requests);

/* Submits an allgather of src, or an alltoall of src in parts of sends, with lengths that the other ranks do not
 * know. dst and counts are 0; ring_result returns the result. */
int ring_submit_v(ring_queue queue, const char *name, const ring_call *call, ring_request *request);

/* Returns the result of a finished request of ring_submit_v, or its error: count elements at data, counts[i] of them
 * from rank i. It is valid until the request is released. */
int ring_result(ring_request request, void **data, uint64_t *count, const int64_t **counts);

/* Start and stop writing the events of each name on this rank to a file, as Chrome trace events. */
int ring_timeline_start(ring_queue queue, const char *path, int mark_cycles);
int ring_timeline_stop(ring_queue queue);

/* Devices: collectives on GPU memory, by NCCL if available. gorun's docs/gpu.md explains what is loaded and what can
 * fail. A stream is a cudaStream_t or CUstream, NULL the default one. Calls are enqueued on the stream; their
 * memory, on the device's GPU, is in use until the stream has executed them. */
typedef uint64_t ring_device;

typedef struct ring_device_options {
	size_t size;
	int64_t open_ms;    /* for all ranks to join; 0 or less: no limit */
	int64_t timeout_ms; /* launched work that does not finish in this time fails the job; 0 or less: never */
} ring_device_options;

/* Joins a GPU, by its number among those visible to the process, with those of the other ranks. It is a collective
 * of comm. options may be NULL. After RING_NO_GPU comm stays usable. Close it before comm. */
int ring_device_open(ring_comm comm, int32_t ordinal, const ring_device_options *options, ring_device *device);
int ring_device_close(ring_device device);

typedef struct ring_device_info {
	size_t size;
	int32_t native; /* not 0 if NCCL moves the data */
	char how[256];  /* what moves the data, and why if not NCCL */
} ring_device_info;
int ring_device_get_info(ring_device device, ring_device_info *info);

/* Enqueues count calls, of any kind but a barrier, as one group; they must not depend on each other. All ranks make
 * the same calls in the same order. scales is NULL, or a factor for each call's elements, 0 for none: for RING_SUM
 * and RING_AVG of floating point numbers. */
int ring_device_run(ring_device device, void *stream, size_t count, const ring_call *calls, const double *scales);

/* Waits until all enqueued work is done, at most timeout_ms (less than 0: no limit); RING_TIMEOUT if it is not. */
int ring_device_wait(ring_device device, int64_t timeout_ms);

/* Returns RING_OK, or the error that broke the device. */
int ring_device_error(ring_device device);

/* ring_submit_group for GPU memory. A request is done when its call is enqueued on the stream: work that uses the
 * result may then be enqueued. A rank uses one GPU and stream for all calls of a queue, and needs no device. If a
 * rank has joined, the others get RING_MISMATCH. */
int ring_submit_device(ring_queue queue, int32_t ordinal, void *stream, size_t count, const char *const *names, const ring_call *calls, ring_request *requests);

/* Returns the rank whose failure caused this thread's last RING_PEER, by its number in the whole job, or -1. */
int32_t ring_failed_rank(void);

#ifdef __cplusplus
}
#endif

#endif
