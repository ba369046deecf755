/*
 * ring.h: gorun's collectives for C, and for every language that can call C.
 *
 * A process that gorun started joins the other ranks of its job with ring_init; one that was not is a world of one.
 * Then ranks either make the same calls in the same order (ring_run, ring_start), or submit them by name in any order
 * to a queue (ring_submit). Link with -lring.
 *
 *     ring_comm comm;
 *     if (ring_init(&comm, NULL) != RING_OK) { fprintf(stderr, "%s\n", ring_last_error()); exit(1); }
 *     float x[2] = {1, 2};
 *     if (ring_allreduce(comm, x, x, 2, RING_FLOAT32, RING_SUM) != RING_OK) ...
 *     ring_close(comm);
 *
 * Every function returns RING_OK or another ring_error, whose text is ring_last_error. All may be called from several
 * threads at once. What a call means in full, what breaks a communicator and what does not, is said in gorun's docs/ring.md.
 *
 * Memory that is handed over belongs to the call until it is over: until ring_run returns, until ring_wait says that a
 * request is over. Names, calls, counts and shapes are copied at once.
 *
 * In a child of fork(2) every function fails with RING_FORKED: threads do not survive a fork. Start workers that
 * need the ring as programs of their own (spawn). A child that does not use it is free to go on.
 *
 * The library installs no handler for SIGINT, SIGTERM or SIGCHLD, and hands faults outside of it to the handlers that
 * were there before.
 */
#ifndef RING_H
#define RING_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The number of this interface. It changes when a program that was built for it would not work any more; structs grow
 * at their end without that, which is what their member size is for: set it to the struct's sizeof. */
#define RING_ABI 1
uint32_t ring_abi(void);

/* The version of gorun that the library is of, such as "v1.2.0". */
const char *ring_version(void);

typedef enum ring_error {
	RING_OK = 0,
	RING_INVALID = 1,     /* wrong arguments: nothing was sent, and all goes on */
	RING_MISMATCH = 2,    /* the ranks' calls differ; of a queue only this name fails */
	RING_PEER = 3,        /* a rank or host has failed, or this rank has not waited longer: nothing works any more. See ring_failed_rank */
	RING_CLOSED = 4,      /* this rank has closed the communicator or queue */
	RING_TIMEOUT = 5,     /* ring_wait: the request goes on. ring_run, ring_init: nothing works any more */
	RING_DUPLICATE = 6,   /* the name is in use by a request that is not over */
	RING_FORKED = 7,      /* this process is a child of the one that loaded the library */
	RING_INTERNAL = 8,    /* a fault of the library: please report its text */
	RING_NO_GPU = 9       /* this rank, or another one, has no GPU or driver; all goes on without */
} ring_error;

/* The name of an error, such as "RING_PEER". */
const char *ring_error_name(int code);

/* The text of the last error that a function returned to this thread. It is valid until the next one is. */
const char *ring_last_error(void);

/* The text of the last error of a communicator, a queue, or a request that failed and was not released. It is cut to
 * size bytes, the last of them 0. */
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

/* Reductions. Up to 63 the numbers are those of ncclRedOp_t. Sums of integers wrap around, their averages are cut
 * towards zero. Of RING_BOOL sum and max mean or, prod and min mean and. */
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
	RING_ALLGATHER = 3,      /* dst: n of each rank, src: n. counts for unlike parts */
	RING_ALLREDUCE = 4,      /* dst, src: n. op */
	RING_REDUCE = 5,         /* dst: n at the root, src: n. op, root */
	RING_REDUCE_SCATTER = 6, /* dst: n, src: n of each rank. op; counts for unlike parts */
	RING_GATHER = 7,         /* dst: n of each rank at the root, src: n. root; counts */
	RING_SCATTER = 8,        /* dst: n, src: n of each rank at the root. root; counts */
	RING_ALLTOALL = 9,       /* dst, src: n of each rank. counts and sends for unlike parts */
	RING_MESSAGE = 10        /* dst: from rank from, src: for rank to; -1 for none */
} ring_kind;

/* A call. What a kind does not use is 0. Lengths are in elements. */
typedef struct ring_call {
	size_t size; /* sizeof(ring_call) */
	int32_t kind;
	int32_t dtype;
	int32_t op;
	int32_t root;
	int32_t to, from;
	void *dst;
	uint64_t dst_count;
	const void *src; /* may be dst, or where dst or src has parts this rank's own part */
	uint64_t src_count;
	const int64_t *counts; /* NULL, or as many as there are ranks: the length of each rank's part, or what it sends here */
	const int64_t *sends;  /* of an alltoall, with counts: what goes to each rank */
	const char *shape;     /* NULL, or of a submitted call: what all ranks must say alike besides the length, such as "32x16";
	                        * of an allgather or alltoall without the first dimension. It is compared, not used */
} ring_call;

typedef uint64_t ring_comm;
typedef uint64_t ring_queue;
typedef uint64_t ring_request;

typedef struct ring_init_options {
	size_t size;
	int64_t timeout_ms; /* for all ranks to come; 0 or less: as long as gorun waits */
	int64_t stall_ms;   /* a call that waits so long for ranks is told to gorun's user; 0: 30 s, less: never */
	int64_t left_epoch; /* of an elastic job: the epoch that this process was in, and whose communicator it has closed; 0: none */
} ring_init_options;

/* Joins the job. options may be NULL. In an elastic job it waits for the first epoch after left_epoch that this process is in. */
int ring_init(ring_comm *comm, const ring_init_options *options);

/* Leaves the job, or a part that ring_split or ring_group made. Requests that are not over fail; all are still to be
 * waited for or released. Close after the last call. */
int ring_close(ring_comm comm);

/* Makes communicators of some of the ranks: of those that give the same color, in the order of key, then rank. All
 * ranks of comm call it. A rank with a negative color gets 0. */
int ring_split(ring_comm comm, int32_t color, int32_t key, ring_comm *part);

/* Makes a communicator of count ranks of comm, in their order. Only they call it, with the same ranks and a name that no
 * other group of comm has had, and come within timeout_ms (0 or less: for good). An error breaks nothing else. */
int ring_group(ring_comm comm, const char *name, const int32_t *ranks, size_t count, int64_t timeout_ms, ring_comm *part);

typedef struct ring_info {
	size_t size;
	int32_t rank, ranks;
	int32_t local_rank, local_ranks; /* on this host */
	int32_t cross_rank, cross_ranks; /* hosts that have this local rank */
	char host[256];                  /* as the user wrote it */
	int32_t epoch;                   /* of an elastic job, from 1; 0: it is none */
	int32_t first_epoch;             /* that ring_init first tried to join: below epoch if it failed meanwhile */
} ring_info;
int ring_comm_info(ring_comm comm, ring_info *info);

/* In an elastic job hosts come and go. When a rank has failed (RING_PEER), the others close their communicator and join the
 * next epoch by ring_init with left_epoch; when hosts have come or are to go, all ranks do. ring_check_hosts says so, to all of
 * them alike: they call it at the same point of their work. updated is then not 0. ring_hosts_updated asks nobody, and says
 * whether this rank has heard of it. In a job that is not elastic updated is always 0. */
int ring_check_hosts(ring_comm comm, int *updated);
int ring_hosts_updated(ring_comm comm, int *updated);

/* Makes a call and returns when this rank's part is over. A timeout (0 or less: none) breaks the communicator. */
int ring_run(ring_comm comm, const ring_call *call, int64_t timeout_ms);

/* ring_run for the most common kinds. count is the length of src, and of dst where it is as long; for a
 * reduce-scatter it is the length of dst, for an allgather of src, for an alltoall that of one rank's part. */
int ring_allreduce(ring_comm comm, void *dst, const void *src, uint64_t count, int32_t dtype, int32_t op);
int ring_reduce(ring_comm comm, void *dst, const void *src, uint64_t count, int32_t dtype, int32_t op, int32_t root);
int ring_reduce_scatter(ring_comm comm, void *dst, const void *src, uint64_t count, int32_t dtype, int32_t op);
int ring_allgather(ring_comm comm, void *dst, const void *src, uint64_t count, int32_t dtype);
int ring_alltoall(ring_comm comm, void *dst, const void *src, uint64_t count, int32_t dtype);
int ring_broadcast(ring_comm comm, void *buf, uint64_t count, int32_t dtype, int32_t root);
int ring_barrier(ring_comm comm);
int ring_send(ring_comm comm, const void *src, uint64_t count, int32_t dtype, int32_t to);
int ring_recv(ring_comm comm, void *dst, uint64_t count, int32_t dtype, int32_t from);

/* Begins a call and returns at once. Calls are made in the order in which they are started. */
int ring_start(ring_comm comm, const ring_call *call, ring_request *request);

/* Says whether a request is over: done is then not 0. It does not wait, and the request is still to be waited for. */
int ring_poll(ring_request request, int *done);

/* Waits until a request is over, at most for timeout_ms (less than 0: for good). RING_TIMEOUT says that it is not. A
 * request that is over well is gone with that, unless it is one of ring_submit_v; all others are to be released. Several
 * threads may wait for one; who comes when it is gone gets RING_INVALID. */
int ring_wait(ring_request request, int64_t timeout_ms);

/* Frees a request that is over, with its result and its error's text; while other threads wait for it, with the last of them. */
int ring_release(ring_request request);

typedef struct ring_queue_options {
	size_t size;
	int64_t fusion_bytes; /* allreduced as one at most; less than 0: 64 MiB, 0: none */
	int64_t cache_names;  /* that travel as numbers; less than 0: 1024 */
	int64_t stall_ms;     /* a name for which ranks wait so long is told to gorun's user; 0 or less: 60 s */
} ring_queue_options;

/* Makes a queue. All ranks of comm call it, with equal fusion_bytes and cache_names. options may be NULL. Close it before
 * comm, when all of its requests are over on all ranks. */
int ring_queue_open(ring_comm comm, const ring_queue_options *options, ring_queue *queue);
int ring_queue_close(ring_queue queue);

/* Submits a call by name (0-terminated UTF-8) and returns at once. It runs when all ranks have submitted one of that
 * name. Kinds are allreduce, broadcast, reduce-scatter, barrier, and allgather and alltoall of equal parts. */
int ring_submit(ring_queue queue, const char *name, const ring_call *call, ring_request *request);

/* ring_submit that makes the call in this thread if nothing else of the queue is in flight, which is the fastest: it returns
 * when the call is over, with its error and no request (0), or with a request when it has to wait for other ranks. For as long
 * as ranks take to answer, at most about a second unless one is stopped, it cannot be interrupted. */
int ring_submit_here(ring_queue queue, const char *name, const ring_call *call, ring_request *request);

/* Says that this rank has no more to submit, because it has run out of data. Until all ranks have joined, allreduces of
 * RING_SUM and RING_AVG take zeros from it, and it takes part in barriers; what else the others submit is RING_MISMATCH for
 * them. The request is over when all have joined; ring_wait then writes to last the rank that was the last to. */
int ring_join(ring_queue queue, int32_t *last, ring_request *request);

/* Submits count calls as one, so that those that can run as one do. After an error none was submitted. */
int ring_submit_group(ring_queue queue, size_t count, const char *const *names, const ring_call *calls, ring_request *requests);

/* Submits an allgather of src, or an alltoall of src in parts of sends, whose parts' lengths the other ranks do not know.
 * dst and counts are 0: the result is ring_result's. */
int ring_submit_v(ring_queue queue, const char *name, const ring_call *call, ring_request *request);

/* The result of a request of ring_submit_v that is over, or its error if it failed: count elements at data, counts[i] of them from rank i, for as
 * many ranks as there are. It is valid until the request is released. */
int ring_result(ring_request request, void **data, uint64_t *count, const int64_t **counts);

/* Begins, and ends, to write what happens to each name on this rank to a file, as Chrome trace events. */
int ring_timeline_start(ring_queue queue, const char *path, int mark_cycles);
int ring_timeline_stop(ring_queue queue);

/* Devices: collectives on the memory of GPUs, by NCCL where it is there. gorun's docs/gpu.md says what is loaded, and what fails how.
 *
 * A stream is a cudaStream_t or CUstream, and NULL the default one. The memory is that of the device's GPU. Calls are enqueued on the
 * stream; when they return the memory is in use until the stream has come to them. */
typedef uint64_t ring_device;

typedef struct ring_device_options {
	size_t size;
	int64_t open_ms;    /* for all ranks to come; 0 or less: for good */
	int64_t timeout_ms; /* what was launched and does not come to its end ends the job; 0 or less: never */
} ring_device_options;

/* Joins the GPU with that number, of those that the process may see, with those of the other ranks. All ranks of comm call it, as they
 * do with a collective. options may be NULL. RING_NO_GPU leaves comm as it was. Close it before comm. */
int ring_device_open(ring_comm comm, int32_t ordinal, const ring_device_options *options, ring_device *device);
int ring_device_close(ring_device device);

typedef struct ring_device_info {
	size_t size;
	int32_t native; /* not 0 where NCCL moves the data */
	char how[256];  /* what moves it, and why it is not NCCL */
} ring_device_info;
int ring_device_get_info(ring_device device, ring_device_info *info);

/* Enqueues count calls, of any kind but a barrier, as one group: they must not depend on each other. All ranks make the same calls in the
 * same order. scales is NULL, or what each call's elements are multiplied by first, 0 for nothing: in RING_SUM and RING_AVG of
 * floating point numbers. */
int ring_device_run(ring_device device, void *stream, size_t count, const ring_call *calls, const double *scales);

/* Waits until all is done that was enqueued, at most for timeout_ms (less than 0: for good). RING_TIMEOUT says that it is not. */
int ring_device_wait(ring_device device, int64_t timeout_ms);

/* RING_OK, or why the device no longer works. */
int ring_device_error(ring_device device);

/* ring_submit_group for memory of the GPU with that number. A request is over when its call is enqueued on the stream: what
 * uses the result may then be enqueued. A rank gives all of a queue's calls the same GPU and stream. Nothing needs to be opened
 * before. A rank that has joined takes no part: RING_MISMATCH for the others. */
int ring_submit_device(ring_queue queue, int32_t ordinal, void *stream, size_t count, const char *const *names, const ring_call *calls, ring_request *requests);

/* The rank whose failure the last RING_PEER of this thread tells of, by its number in the whole job; -1 when it was none. */
int32_t ring_failed_rank(void);

#ifdef __cplusplus
}
#endif

#endif
