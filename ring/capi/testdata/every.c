/* Every kind with every type and operation, through every way there is, against what must come out. */
#include "check.h"

enum { MOST = 8, UNLIKE = 100, ROOM = 1 << 16 };
enum way { RUN, START, SUBMIT, GROUP, WAYS, DEVICE = WAYS, SUBMIT_DEVICE, ALL_WAYS };

static ring_comm comm;
static ring_queue queue;
static ring_device device;
static int rank, ranks;

static int size_of(int dtype)
{
	switch (dtype) {
	case RING_INT8: case RING_UINT8: case RING_BOOL: return 1;
	case RING_INT16: case RING_FLOAT16: case RING_BFLOAT16: return 2;
	case RING_INT32: case RING_FLOAT32: return 4;
	}
	return 8;
}

static int is_float(int dtype)
{
	return dtype == RING_FLOAT16 || dtype == RING_BFLOAT16 || dtype == RING_FLOAT32 || dtype == RING_FLOAT64;
}

/* Numbers are small enough for all types to hold them exactly. */
static void put(char *at, int dtype, double x)
{
	union { int8_t i8; uint8_t u8; int16_t i16; int32_t i32; int64_t i64; uint64_t u64; float f32; double f64; uint16_t bits; } v;
	float f = (float)x;
	uint32_t w;
	memset(&v, 0, sizeof v);
	memcpy(&w, &f, sizeof w);
	switch (dtype) {
	case RING_INT8: v.i8 = (int8_t)x; break;
	case RING_UINT8: case RING_BOOL: v.u8 = (uint8_t)x; break;
	case RING_INT16: v.i16 = (int16_t)x; break;
	case RING_INT32: v.i32 = (int32_t)x; break;
	case RING_INT64: v.i64 = (int64_t)x; break;
	case RING_UINT64: v.u64 = (uint64_t)x; break;
	case RING_FLOAT32: v.f32 = f; break;
	case RING_FLOAT64: v.f64 = x; break;
	case RING_BFLOAT16: v.bits = (uint16_t)(w >> 16); break;
	case RING_FLOAT16: v.bits = (uint16_t)(w == 0 ? 0 : (w >> 16 & 0x8000) | ((w >> 23 & 0xff) - 112) << 10 | (w >> 13 & 0x3ff)); break;
	default: CHECK(!"a type");
	}
	memcpy(at, &v, (size_t)size_of(dtype));
}

/* What rank r gives as its element i. */
static double given(int r, int i, int dtype) { return dtype == RING_BOOL ? (double)((r + i) % 2) : (double)((r + i) % 3 + 1); }

static int valid(int dtype, int op)
{
	if (op == RING_AVG)
		return dtype != RING_BOOL;
	return op < RING_BAND || !is_float(dtype);
}

/* The reduction of element i over all ranks. */
static double reduced(int i, int dtype, int op)
{
	double x = given(0, i, dtype);
	for (int r = 1; r < ranks; r++) {
		double y = given(r, i, dtype);
		switch (op) {
		case RING_SUM: x = dtype == RING_BOOL ? (double)(x != 0 || y != 0) : x + y; break;
		case RING_AVG: x += y; break;
		case RING_PROD: x *= y; break;
		case RING_MAX: x = x > y ? x : y; break;
		case RING_MIN: x = x < y ? x : y; break;
		case RING_BAND: x = (double)((int)x & (int)y); break;
		case RING_BOR: x = (double)((int)x | (int)y); break;
		case RING_BXOR: x = (double)((int)x ^ (int)y); break;
		}
	}
	if (op != RING_AVG)
		return x;
	return is_float(dtype) ? x / ranks : (double)((int)x / ranks);
}

static void same(const char *got, int dtype, double want, const char *what, int kind, int op, int i)
{
	char bytes[8];
	put(bytes, dtype, want);
	if (memcmp(got, bytes, (size_t)size_of(dtype)) == 0)
		return;
	fprintf(stderr, "rank %d of %d: %s: kind %d, dtype %d, op %d: element %d is not %g\n", rank, ranks, what, kind, dtype, op, i, want);
	_Exit(9);
}

/* Makes the call one way. Queues have not all kinds. */
static int make(ring_call *call, int way, int unlike)
{
	static const char *const names[] = {"tensor"};
	ring_request request;
	if (way >= DEVICE && call->kind == RING_BARRIER) {
		WANT(RING_INVALID, way == DEVICE ? ring_device_run(device, NULL, 1, call, NULL) : ring_submit_device(queue, rank, NULL, 1, names, call, &request));
		return 1;
	}
	if (way >= SUBMIT && way != DEVICE) {
		switch (call->kind) {
		case RING_BARRIER: case RING_BROADCAST: case RING_ALLREDUCE: case RING_REDUCE_SCATTER: break;
		case RING_ALLGATHER: case RING_ALLTOALL: if (unlike) return 0; break;
		default: return 0;
		}
	}
	switch (way) {
	case RUN: OK(ring_run(comm, call, 0)); return 1;
	case START: OK(ring_start(comm, call, &request)); break;
	case SUBMIT: OK(ring_submit(queue, names[0], call, &request)); break;
	case GROUP: OK(ring_submit_group(queue, 1, names, call, &request)); break;
	case DEVICE: OK(ring_device_run(device, NULL, 1, call, NULL)); OK(ring_device_wait(device, -1)); return 1;
	case SUBMIT_DEVICE: OK(ring_submit_device(queue, rank, NULL, 1, names, call, &request)); break;
	}
	OK(ring_wait(request, way == START ? -1 : 60000));
	WANT(RING_INVALID, ring_wait(request, -1));
	if (way == SUBMIT_DEVICE) { /* it is on the stream, and this comes after it */
		static char behind;
		ring_call after = call_of(RING_BROADCAST, RING_INT8, 0, &behind, 1, NULL, 0);
		OK(ring_device_run(device, NULL, 1, &after, NULL));
		OK(ring_device_wait(device, 60000));
	}
	return 1;
}

static int64_t part(int r) { return (r * 5 + 3) % 7; } /* elements of rank r, where they are unlike */

/* Elements off bytes beyond where the type would have them: C's buffers need not be aligned. */
static void kind_type_op(int kind, int dtype, int op, int way, int unlike, size_t off)
{
	static char dst[ROOM], src[ROOM];
	int64_t counts[MOST], sends[MOST], before = 0, all = 0, own = 3;
	int size = size_of(dtype), root = (kind + dtype) % ranks;
	char *to = dst + off, *from = src + off;
	for (int r = 0; r < ranks; r++) {
		counts[r] = unlike ? part(r) : own;
		before += r < rank ? counts[r] : 0;
		all += counts[r];
	}
	own = counts[rank];
	if (unlike && kind == RING_ALLTOALL) /* rank a sends part(a + b) to rank b */
		for (int r = 0; r < ranks; r++)
			counts[r] = sends[r] = part(rank + r);
	if (kind == RING_ALLTOALL)
		for (int r = all = 0; r < ranks; r++)
			all += counts[r];
	memset(dst, 0x55, sizeof dst);
	ring_call call = call_of(kind, dtype, op, to, 0, from, 0);
	call.root = root;
	if (unlike) {
		call.counts = counts;
		call.sends = kind == RING_ALLTOALL ? sends : NULL;
	}
	switch (kind) { /* the lengths */
	case RING_ALLREDUCE: call.dst_count = call.src_count = (uint64_t)all; break;
	case RING_REDUCE: call.src_count = (uint64_t)all, call.dst_count = rank == root ? (uint64_t)all : 0; break;
	case RING_BROADCAST: call.dst_count = (uint64_t)all, call.src = NULL; break;
	case RING_ALLGATHER: call.dst_count = (uint64_t)all, call.src_count = (uint64_t)own; break;
	case RING_GATHER: call.dst_count = rank == root ? (uint64_t)all : 0, call.src_count = (uint64_t)own; break;
	case RING_SCATTER: call.src_count = rank == root ? (uint64_t)all : 0, call.dst_count = (uint64_t)own; break;
	case RING_REDUCE_SCATTER: call.src_count = (uint64_t)all, call.dst_count = (uint64_t)own; break;
	case RING_ALLTOALL: call.dst_count = call.src_count = (uint64_t)all; break;
	case RING_MESSAGE: /* rank 0 to the last one */
		if (rank == 0)
			call.to = ranks - 1, call.src_count = (uint64_t)all;
		if (rank == ranks - 1)
			call.from = 0, call.dst_count = (uint64_t)all;
		break;
	}
	for (uint64_t i = 0; i < call.src_count; i++)
		put(from + i * (size_t)size, dtype, given(rank, (int)i, dtype));
	if (kind == RING_BROADCAST && rank == root)
		for (int i = 0; i < all; i++)
			put(to + i * size, dtype, given(root, i, dtype));
	if (!make(&call, way, unlike))
		return;
	int owner = 0, at = 0;
	for (int i = 0; i < (int)call.dst_count; i++, at++) {
		double want = 0;
		while ((kind == RING_ALLGATHER || kind == RING_GATHER || kind == RING_ALLTOALL) && at >= counts[owner])
			owner++, at = 0;
		switch (kind) {
		case RING_ALLREDUCE: case RING_REDUCE: want = reduced(i, dtype, op); break;
		case RING_REDUCE_SCATTER: want = reduced((int)before + i, dtype, op); break;
		case RING_BROADCAST: want = given(root, i, dtype); break;
		case RING_ALLGATHER: case RING_GATHER: want = given(owner, at, dtype); break;
		case RING_SCATTER: want = given(root, (int)before + i, dtype); break;
		case RING_MESSAGE: want = given(0, i, dtype); break;
		case RING_ALLTOALL: {
			int mine = 0; /* where my part begins at the owner's */
			for (int r = 0; r < rank; r++)
				mine += unlike ? (int)part(owner + r) : 3;
			want = given(owner, mine + at, dtype);
		}
		}
		same(to + i * size, dtype, want, way == RUN ? "run" : way == START ? "start" : "submit", kind, op, i);
	}
	for (size_t i = off + call.dst_count * (size_t)size; i < off + 200 && (kind != RING_BROADCAST); i++)
		CHECK(dst[i] == 0x55); /* nothing is written beyond the end */
}

static void all_of_one_way(int way)
{
	static const int dtypes[] = {RING_INT8, RING_UINT8, RING_BOOL, RING_INT16, RING_FLOAT16, RING_BFLOAT16, RING_INT32, RING_FLOAT32,
		RING_INT64, RING_UINT64, RING_FLOAT64};
	static const int ops[] = {RING_SUM, RING_PROD, RING_MAX, RING_MIN, RING_AVG, RING_BAND, RING_BOR, RING_BXOR};
	for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
		for (int kind = RING_BROADCAST; kind <= RING_MESSAGE; kind++)
			for (int unlike = 0; unlike < 2; unlike++) {
				int reduces = kind == RING_ALLREDUCE || kind == RING_REDUCE || kind == RING_REDUCE_SCATTER;
				if (unlike && (kind == RING_BROADCAST || kind == RING_ALLREDUCE || kind == RING_REDUCE || kind == RING_MESSAGE))
					continue;
				for (size_t o = 0; o < (reduces ? sizeof ops / sizeof *ops : 1); o++)
					if (valid(dtypes[d], ops[o]))
						kind_type_op(kind, dtypes[d], ops[o], way, unlike, (d + o) % 2);
					else {
						char one[8] = {0}, two[8] = {0};
						ring_call call = call_of(RING_ALLREDUCE, dtypes[d], ops[o], one, 1, two, 1);
						WANT(RING_INVALID, ring_run(comm, &call, 0));
					}
			}
	ring_call barrier = call_of(RING_BARRIER, 0, 0, NULL, 0, NULL, 0);
	CHECK(make(&barrier, way, 0));
}

/* Long vectors that are not aligned go through all kernels. */
static void long_and_odd(void)
{
	enum { N = 300001 };
	char *src = (char *)malloc(N * 4 + 8), *dst = (char *)malloc(N * 4 + 8);
	CHECK(src != NULL && dst != NULL);
	for (int off = 0; off < 4; off++) {
		for (int i = 0; i < N; i++)
			put(src + off + i * 4, RING_FLOAT32, given(rank, i, RING_FLOAT32));
		OK(ring_allreduce(comm, dst + (3 - off), src + off, N, RING_FLOAT32, RING_SUM));
		for (int i = 0; i < N; i++)
			same(dst + (3 - off) + i * 4, RING_FLOAT32, reduced(i, RING_FLOAT32, RING_SUM), "long", RING_ALLREDUCE, RING_SUM, i);
	}
	free(src), free(dst);
}

/* The functions that need no struct. */
static void short_forms(void)
{
	float x[MOST], y[MOST], all[MOST * MOST];
	int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
	double sum = 0;
	for (int r = 0; r < ranks; r++)
		sum += r + 1;
	for (int i = 0; i < MOST; i++)
		x[i] = (float)(rank + 1);
	OK(ring_allreduce(comm, y, x, MOST, RING_FLOAT32, RING_SUM));
	CHECK(y[0] == (float)sum && y[MOST - 1] == (float)sum);
	y[0] = -1;
	OK(ring_reduce(comm, rank == 0 ? y : NULL, x, MOST, RING_FLOAT32, RING_MAX, 0));
	CHECK(y[0] == (rank == 0 ? (float)ranks : -1.0f));
	OK(ring_allgather(comm, all, x, 2, RING_FLOAT32));
	for (int r = 0; r < ranks; r++)
		CHECK(all[2 * r] == (float)(r + 1) && all[2 * r + 1] == (float)(r + 1));
	OK(ring_reduce_scatter(comm, y, all, 2, RING_FLOAT32, RING_SUM));
	CHECK(y[0] == (float)(ranks * (rank + 1)) && y[1] == y[0]);
	for (int r = 0; r < ranks; r++)
		x[r] = (float)(10 * rank + r);
	OK(ring_alltoall(comm, y, x, 1, RING_FLOAT32));
	for (int r = 0; r < ranks; r++)
		CHECK(y[r] == (float)(10 * r + rank));
	x[0] = (float)rank;
	OK(ring_broadcast(comm, x, 1, RING_FLOAT32, ranks - 1));
	CHECK(x[0] == (float)(ranks - 1));
	OK(ring_barrier(comm));
	if (ranks == 1)
		return;
	y[0] = -1, x[0] = (float)rank;
	if (rank % 2 == 0) {
		OK(ring_send(comm, x, 1, RING_FLOAT32, next));
		OK(ring_recv(comm, y, 1, RING_FLOAT32, last));
	} else {
		OK(ring_recv(comm, y, 1, RING_FLOAT32, last));
		OK(ring_send(comm, x, 1, RING_FLOAT32, next));
	}
	CHECK(y[0] == (float)last);
}

/* Parts whose lengths only their own rank knows. */
static void unknown_parts(void)
{
	int32_t mine[MOST], *data;
	int64_t sends[MOST];
	const int64_t *counts;
	void *memory;
	uint64_t count;
	ring_request request;
	for (int i = 0; i < MOST; i++)
		mine[i] = 100 * rank + i;
	ring_call call = call_of(RING_ALLGATHER, RING_INT32, 0, NULL, 0, mine, (uint64_t)part(rank));
	OK(ring_submit_v(queue, "parts", &call, &request));
	OK(ring_wait(request, -1));
	OK(ring_wait(request, -1)); /* it stays until it is released */
	OK(ring_result(request, &memory, &count, &counts));
	data = (int32_t *)memory;
	for (int r = 0; r < ranks; r++) {
		CHECK(counts[r] == part(r));
		for (int i = 0; i < counts[r]; i++)
			CHECK(*data++ == 100 * r + i);
		count -= (uint64_t)counts[r];
	}
	CHECK(count == 0);
	OK(ring_release(request));
	WANT(RING_INVALID, ring_result(request, &memory, &count, &counts));
	WANT(RING_INVALID, ring_release(request));

	for (int r = 0; r < ranks; r++)
		sends[r] = 1;
	call = call_of(RING_ALLTOALL, RING_INT32, 0, NULL, 0, mine, (uint64_t)ranks);
	call.sends = sends;
	OK(ring_submit_v(queue, "swap", &call, &request));
	OK(ring_wait(request, 60000));
	OK(ring_result(request, &memory, &count, &counts));
	data = (int32_t *)memory;
	CHECK(count == (uint64_t)ranks);
	for (int r = 0; r < ranks; r++)
		CHECK(counts[r] == 1 && data[r] == 100 * r + rank);
	OK(ring_release(request));
}

/* A sum that this thread makes. */
static float sum_here(const char *name, float x)
{
	ring_request request; ring_call call = sum_of(&x, 1);
	OK(ring_submit_here(queue, name, &call, &request));
	CHECK(request == 0 || ring_wait(request, -1) == RING_OK);
	return x;
}

static void here_and_join(void)
{
	ring_request request; int32_t last = -1;
	CHECK(sum_here("here", 1) == (float)ranks);
	CHECK(rank != 0 || sum_here("alone", 5) == 5); /* the others give zeros */
	CHECK(ring_join(queue, &last, &request) == RING_OK && ring_wait(request, -1) == RING_OK && last >= 0 && last < ranks);
}

/* A group, of calls as a later ring.h may have them. */
static void groups(void)
{
	struct later { ring_call call; uint64_t more; } calls[3];
	static const char *const names[] = {"a", "b", "c"};
	ring_request requests[3];
	float x[3];
	for (int i = 0; i < 3; i++) {
		x[i] = (float)(i + 1);
		calls[i].call = sum_of(&x[i], 1);
		calls[i].call.size = sizeof calls[i];
		calls[i].more = 77;
	}
	OK(ring_submit_group(queue, 3, names, &calls[0].call, requests));
	for (int i = 0; i < 3; i++) {
		OK(ring_wait(requests[i], -1));
		CHECK(x[i] == (float)(ranks * (i + 1)));
	}
	calls[1].call.size = sizeof(ring_call);
	WANT(RING_INVALID, ring_submit_group(queue, 3, names, &calls[0].call, requests));
	OK(ring_submit_group(queue, 0, NULL, NULL, NULL));
}

static void parts_of_ranks(void)
{
	ring_comm part_comm;
	OK(ring_split(comm, rank % 2, -rank, &part_comm));
	ring_info info = info_of(part_comm);
	CHECK(info.ranks == (ranks + 1 - rank % 2) / 2);
	float x = 1;
	OK(ring_allreduce(part_comm, &x, &x, 1, RING_FLOAT32, RING_SUM));
	CHECK(x == (float)info.ranks);
	OK(ring_close(part_comm));
	part_comm = 5;
	OK(ring_split(comm, -1, 0, &part_comm));
	CHECK(part_comm == 0);
}

/* The same on memory of GPUs, with stand-ins for which that is the host's; how is "nccl" or "host". */
static void devices(const char *how)
{
	ring_device_options options;
	ring_device_info info;
	memset(&options, 0, sizeof options), memset(&info, 0, sizeof info);
	options.size = sizeof options, options.open_ms = options.timeout_ms = 60000;
	info.size = sizeof info;
	OK(ring_device_open(comm, rank, &options, &device));
	OK(ring_device_get_info(device, &info));
	CHECK(info.native == (strcmp(how, "nccl") == 0) && strstr(info.how, info.native ? "NCCL" : "host memory") != NULL);
	for (int way = DEVICE; way < ALL_WAYS; way++)
		all_of_one_way(way);
	float x = 3, y = (float)rank;
	double scales[] = {0.5, 0};
	ring_call calls[] = {sum_of(&x, 1), call_of(RING_BROADCAST, RING_FLOAT32, 0, &y, 1, NULL, 0)};
	OK(ring_device_run(device, NULL, 2, calls, scales));
	OK(ring_device_wait(device, -1));
	CHECK(x == 1.5f * (float)ranks && y == 0);
	OK(ring_device_error(device));
	OK(ring_device_close(device));
	WANT(RING_CLOSED, ring_device_close(device));
}

int main(int argc, char **argv)
{
	ring_init_options options;
	memset(&options, 0, sizeof options);
	options.size = sizeof options, options.timeout_ms = INT64_MAX, options.stall_ms = INT64_MAX;
	CHECK(ring_abi() == RING_ABI);
	CHECK(strlen(ring_version()) > 0);
	OK(ring_init(&comm, argc > 2 ? NULL : &options));
	ring_info info = info_of(comm);
	rank = info.rank, ranks = info.ranks;
	CHECK(ranks == atoi(argv[1]) && ranks <= MOST && info.local_ranks == ranks && info.local_rank == rank);
	CHECK(info.cross_ranks == 1 && info.cross_rank == 0 && strlen(info.host) > 0);
	OK(ring_queue_open(comm, NULL, &queue));
	if (argc > 2)
		OK(ring_timeline_start(queue, argv[2], 1));
	for (int way = 0; way < WAYS; way++)
		all_of_one_way(way);
	if (getenv("EVERY_DEVICE") != NULL)
		devices(getenv("EVERY_DEVICE"));
	long_and_odd();
	short_forms();
	here_and_join();
	unknown_parts();
	groups();
	parts_of_ranks();
	OK(ring_timeline_stop(queue));
	OK(ring_barrier(comm));
	OK(ring_queue_close(queue));
	OK(ring_barrier(comm));
	OK(ring_close(comm));
	puts("all right");
	return 0;
}
