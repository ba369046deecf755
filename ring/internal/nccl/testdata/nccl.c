/*
 * A stand-in for libnccl.so.2 on the stand-in for libcuda: communicators of processes and threads, through a file in
 * $STANDIN_DIR. It holds its caller to NCCL's rules: one thread at a time, a context, no call while another is in progress,
 * the same calls in the same order on all ranks. Where a caller breaks the first the process ends.
 *
 * $STANDIN_POLLS, _ERROR, _ASYNC, _HANG, _INIT_ERROR, _INIT_HANG: RANK:N or *:N. A call is in progress for N polls; the
 * Nth launch fails, fails later, never ends; the Nth communicator cannot be made, is not ready ever.
 * $STANDIN_ROOM: so many launches may be outstanding; the next one waits in its call, for 10 s at most.
 */
#include "standin.h"

#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef STANDIN_HALF /* an NCCL that lacks something */
#define ncclGroupEnd ncclGroupEndOfOther
#endif
#ifndef STANDIN_VERSION
#define STANDIN_VERSION 22703
#endif

enum { success, cuda_error, system_error, internal_error, invalid_argument, invalid_usage, remote_error, in_progress };
enum { i8, u8, i32, u32, i64, u64, f16, f32, f64, bf16, types };
enum { sum, prod, max, min, avg, ops };
enum { all_reduce, reduce_scatter, all_gather, broadcast, reduce, send_to, recv_from };
enum { ranks = 8, slot_size = 4 << 20, box_size = 1 << 20, max_batch = 64, scales = 16 };

typedef struct { char name[128]; } unique_id;

typedef struct { int kind, type, op, root; size_t count; double scale; } sign;

typedef struct {
	atomic_ulong arrived, left;
	sign sign;
} place;

typedef struct {
	atomic_ulong posted, taken;
	size_t bytes;
} box;

typedef struct {
	atomic_int come;
	place places[ranks];
	box boxes[ranks][ranks];
	char slots[ranks][slot_size];
	char letters[ranks][ranks][box_size];
} world;

typedef struct {
	world *w;
	int n, rank, polls, left, ready, stuck, finalizing;
	atomic_int inside, aborted, outstanding, failed;
	unsigned long launches, calls, sent[ranks], got[ranks];
	atomic_ulong next, turn;
	struct batch *pending;
	double scale[scales];
	int scale_used[scales];
} comm;

typedef struct { sign s; const char *send; char *recv; } call;
typedef struct batch {
	comm *c;
	void *stream;
	int n, hang;
	unsigned long turn;
	call calls[max_batch];
} batch;

static __thread int grouped;
static __thread batch *group;
static __thread char last[256];

static int of_rank(const char *name, int rank)
{
	const char *text = getenv(name);
	if (text == NULL || (*text != '*' && atoi(text) != rank) || strchr(text, ':') == NULL)
		return 0;
	return atoi(strchr(text, ':') + 1);
}

static int refuse(int rc, const char *why)
{
	snprintf(last, sizeof last, "%s", why);
	return rc;
}

static size_t size_of(int type) { return (const size_t[]){1, 1, 4, 4, 8, 8, 2, 4, 8, 2}[type]; }

static void enter(comm *c)
{
	if (atomic_exchange(&c->inside, 1)) {
		fprintf(stderr, "standin: two threads are in calls of one communicator\n");
		abort();
	}
}

static int leave(comm *c, int rc)
{
	atomic_store(&c->inside, 0);
	return rc;
}

static double get(const char *p, int type)
{
	switch (type) {
	case f16: { _Float16 x; memcpy(&x, p, 2); return x; }
	case f32: { float x; memcpy(&x, p, 4); return x; }
	case f64: { double x; memcpy(&x, p, 8); return x; }
	}
	uint16_t h;
	memcpy(&h, p, 2);
	uint32_t bits = (uint32_t)h << 16;
	float x;
	memcpy(&x, &bits, 4);
	return x;
}

static void put(char *p, int type, double v)
{
	float x = (float)v;
	_Float16 h = (_Float16)v;
	uint32_t bits;
	memcpy(&bits, &x, 4);
	uint16_t b = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
	switch (type) {
	case f16: memcpy(p, &h, 2); break;
	case f32: memcpy(p, &x, 4); break;
	case f64: memcpy(p, &v, 8); break;
	case bf16: memcpy(p, &b, 2); break;
	}
}

static int64_t get_int(const char *p, int type)
{
	int32_t s;
	uint32_t u;
	int64_t l;
	switch (type) {
	case i8: return *(const int8_t *)p;
	case u8: return *(const uint8_t *)p;
	case i32: memcpy(&s, p, 4); return s;
	case u32: memcpy(&u, p, 4); return u;
	}
	memcpy(&l, p, 8);
	return l;
}

/* One element of the result: that at offset of all ranks' slots. */
static void combine(const comm *c, const sign *s, size_t offset, char *out)
{
	const char *first = c->w->slots[0] + offset;
	if (s->type >= f16) {
		double v = get(first, s->type) * (s->op >= ops ? c->w->places[0].sign.scale : 1);
		for (int r = 1; r < c->n; r++) {
			double x = get(c->w->slots[r] + offset, s->type) * (s->op >= ops ? c->w->places[r].sign.scale : 1);
			v = s->op == prod ? v * x : s->op == max ? (x > v ? x : v) : s->op == min ? (x < v ? x : v) : v + x;
		}
		put(out, s->type, s->op == avg ? v / c->n : v);
		return;
	}
	int64_t v = get_int(first, s->type);
	for (int r = 1; r < c->n; r++) {
		int64_t x = get_int(c->w->slots[r] + offset, s->type);
		int more = s->type == u64 ? (uint64_t)x > (uint64_t)v : x > v;
		v = s->op == prod ? (int64_t)((uint64_t)v * (uint64_t)x) : s->op == max ? (more ? x : v) : s->op == min ? (more ? v : x) : (int64_t)((uint64_t)v + (uint64_t)x);
	}
	if (s->op == avg)
		v = s->type == u64 ? (int64_t)((uint64_t)v / (uint64_t)c->n) : v / c->n;
	memcpy(out, &v, size_of(s->type));
}

/* Waits until all ranks have come to k, one way or the other. */
static int all(comm *c, unsigned long k, int left)
{
	for (int r = 0; r < c->n; r++)
		while ((left ? atomic_load(&c->w->places[r].left) : atomic_load(&c->w->places[r].arrived)) < k) {
			if (atomic_load(&c->aborted))
				return 0;
			usleep(20);
		}
	return 1;
}

static void until_aborted(comm *c)
{
	while (!atomic_load(&c->aborted))
		usleep(200);
}

static void collective(comm *c, const call *a)
{
	const sign *s = &a->s;
	size_t size = size_of(s->type), bytes = s->count * size, given = s->kind == reduce_scatter ? bytes * c->n : bytes;
	unsigned long k = ++c->calls;
	if (!all(c, k - 1, 1))
		return;
	c->w->places[c->rank].sign = *s;
	if (given > slot_size)
		abort();
	if (s->kind != broadcast || c->rank == s->root)
		memcpy(c->w->slots[c->rank], a->send, given);
	atomic_store(&c->w->places[c->rank].arrived, k);
	if (!all(c, k, 0))
		return;
	for (int r = 0; r < c->n; r++) {
		const sign *o = &c->w->places[r].sign;
		if (o->kind != s->kind || o->type != s->type || o->op != s->op || o->root != s->root || o->count != s->count) {
			atomic_store(&c->failed, internal_error);
			until_aborted(c);
			return;
		}
	}
	size_t from = s->kind == reduce_scatter ? s->count * c->rank : 0;
	if (s->kind == broadcast)
		memcpy(a->recv, c->w->slots[s->root], bytes);
	else if (s->kind == all_gather)
		for (int r = 0; r < c->n; r++)
			memcpy(a->recv + r * bytes, c->w->slots[r], bytes);
	else if (s->kind != reduce || c->rank == s->root)
		for (size_t i = 0; i < s->count; i++)
			combine(c, s, (from + i) * size, a->recv + i * size);
	atomic_store(&c->w->places[c->rank].left, k);
}

/* Tries a message; true when it is over. Sends and receives of a group go on side by side. */
static int message(comm *c, const call *a, unsigned long nth)
{
	int peer = a->s.root;
	size_t bytes = a->s.count * size_of(a->s.type);
	box *b = a->s.kind == send_to ? &c->w->boxes[c->rank][peer] : &c->w->boxes[peer][c->rank];
	char *letter = a->s.kind == send_to ? c->w->letters[c->rank][peer] : c->w->letters[peer][c->rank];
	if (bytes > box_size)
		abort();
	if (a->s.kind == send_to) {
		if (atomic_load(&b->taken) != nth)
			return 0;
		memcpy(letter, a->send, bytes);
		b->bytes = bytes;
		atomic_store(&b->posted, nth + 1);
		return 1;
	}
	if (atomic_load(&b->posted) != nth + 1)
		return 0;
	if (b->bytes != bytes) {
		atomic_store(&c->failed, internal_error);
		until_aborted(c);
		return 1;
	}
	memcpy(a->recv, letter, bytes);
	atomic_store(&b->taken, nth + 1);
	return 1;
}

static void messages(batch *b)
{
	comm *c = b->c;
	unsigned long nth[max_batch];
	char over[max_batch] = {0};
	int open = 0;
	for (int i = 0; i < b->n; i++) {
		int kind = b->calls[i].s.kind, peer = b->calls[i].s.root;
		over[i] = kind < send_to;
		open += !over[i];
		nth[i] = kind == send_to ? c->sent[peer]++ : kind == recv_from ? c->got[peer]++ : 0;
	}
	while (open > 0 && !atomic_load(&c->aborted)) {
		for (int i = 0; i < b->n; i++)
			if (!over[i] && message(c, &b->calls[i], nth[i])) {
				over[i] = 1;
				open--;
			}
		if (open)
			usleep(20);
	}
}

static void perform(void *arg)
{
	batch *b = arg;
	comm *c = b->c;
	while (atomic_load(&c->turn) != b->turn && !atomic_load(&c->aborted))
		usleep(20); /* launches on several streams run one after the other */
	if (b->hang == remote_error)
		atomic_store(&c->failed, remote_error);
	if (b->hang)
		until_aborted(c);
	int slow = standin_env("STANDIN_SLOW", 0);
	if (slow)
		usleep(slow);
	for (int i = 0; i < b->n && !atomic_load(&c->aborted); i++)
		if (b->calls[i].s.kind < send_to)
			collective(c, &b->calls[i]);
	messages(b);
	atomic_store(&c->turn, b->turn + 1);
	free(b);
	atomic_fetch_sub(&c->outstanding, 1);
}

static int submit(batch *b)
{
	comm *c = b->c;
	int nth = (int)++c->launches;
	if (nth == of_rank("STANDIN_ERROR", c->rank)) {
		free(b);
		return refuse(system_error, "the stand-in was told to fail");
	}
	b->hang = nth == of_rank("STANDIN_ASYNC", c->rank) ? remote_error : nth == of_rank("STANDIN_HANG", c->rank) ? in_progress : 0;
	int room = standin_env("STANDIN_ROOM", 0);
	for (int i = 0; room && atomic_load(&c->outstanding) >= room && i < 10000; i++)
		usleep(1000);
	b->turn = atomic_fetch_add(&c->next, 1);
	atomic_fetch_add(&c->outstanding, 1);
	if (c->polls > 0) {
		c->left = c->polls;
		c->pending = b;
		return in_progress;
	}
	standin_enqueue(b->stream, perform, b);
	return success;
}

static int issue(comm *c, void *stream, call a)
{
	if (!standin_current())
		return refuse(cuda_error, "no context");
	enter(c);
	int rc = success;
	if (!c->ready || c->pending)
		rc = refuse(invalid_usage, "called while in progress");
	else if (a.s.type < 0 || a.s.type >= types || a.s.root < 0 || a.s.root >= c->n || a.s.count == 0)
		rc = refuse(invalid_argument, "a type, a root or a count");
	else if (a.s.op >= ops && !c->scale_used[a.s.op - ops])
		rc = refuse(invalid_argument, "an operation that is no more");
	if (rc != success)
		return leave(c, rc);
	if (a.s.op >= ops) {
		a.s.scale = c->scale[a.s.op - ops];
		a.s.op = ops;
	}
	batch *b = group;
	if (b == NULL || !grouped) {
		b = calloc(1, sizeof *b);
		b->c = c;
		b->stream = stream;
	}
	if (b->n == max_batch)
		abort();
	b->calls[b->n++] = a;
	if (grouped)
		group = b;
	else
		rc = submit(b);
	return leave(c, rc);
}

int ncclGetVersion(int *v) { *v = STANDIN_VERSION; return success; }
const char *ncclGetLastError(void *c) { (void)c; return last; }

static char *path_of(const char *id)
{
	static __thread char path[4096];
	const char *dir = getenv("STANDIN_DIR");
	snprintf(path, sizeof path, "%s/%.127s", dir ? dir : "/dev/shm", id);
	return path;
}

int ncclGetUniqueId(unique_id *id)
{
	static atomic_int made;
	snprintf(id->name, sizeof id->name, "nccl-%d-%d", (int)getpid(), atomic_fetch_add(&made, 1));
	int fd = open(path_of(id->name), O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(world)) != 0)
		return refuse(system_error, "make the file in STANDIN_DIR");
	close(fd);
	return success;
}

static int join(void **out, int n, unique_id id, int rank)
{
	static atomic_int made;
	int nth = atomic_fetch_add(&made, 1) + 1, fd;
	if (!standin_current())
		return refuse(cuda_error, "no context");
	if (nth >= of_rank("STANDIN_INIT_ERROR", rank) && of_rank("STANDIN_INIT_ERROR", rank))
		return refuse(invalid_usage, "Duplicate GPU detected, says the stand-in");
	if ((fd = open(path_of(id.name), O_RDWR)) < 0)
		return refuse(system_error, "no such id");
	comm *c = calloc(1, sizeof *c);
	c->w = mmap(NULL, sizeof(world), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	c->n = n;
	c->rank = rank;
	c->stuck = of_rank("STANDIN_INIT_HANG", rank);
	atomic_fetch_add(&c->w->come, !c->stuck);
	standin_live("communicators", 1);
	*out = c;
	return success;
}

#if STANDIN_VERSION >= 21400
typedef struct { size_t size; unsigned magic, version; int blocking; } config;

int ncclCommInitRankConfig(void **out, int n, unique_id id, int rank, config *f)
{
	if (f->magic != 0xcafebeef || f->size < 24 || f->size > 48 || f->version > STANDIN_VERSION || f->blocking != 0)
		return refuse(invalid_argument, "a configuration");
	int rc = join(out, n, id, rank);
	if (rc != success)
		return rc;
	((comm *)*out)->polls = of_rank("STANDIN_POLLS", rank);
	return in_progress;
}

int ncclCommFinalize(void *comm_)
{
	comm *c = comm_;
	if (!standin_current())
		return refuse(cuda_error, "no context");
	enter(c);
	c->left = c->polls;
	c->finalizing = 1;
	return leave(c, in_progress);
}

int ncclRedOpCreatePreMulSum(int *op, void *scalar, int type, int residence, void *comm_)
{
	comm *c = comm_;
	if (residence != 1 || type < f16)
		return refuse(invalid_argument, "a scale");
	enter(c);
	for (int i = 0; i < scales; i++)
		if (!c->scale_used[i]) {
			c->scale_used[i] = 1;
			c->scale[i] = get(scalar, type);
			*op = ops + i;
			standin_live("operations", 1);
			return leave(c, success);
		}
	return leave(c, refuse(internal_error, "too many operations that were not destroyed"));
}

int ncclRedOpDestroy(int op, void *comm_)
{
	((comm *)comm_)->scale_used[op - ops] = 0;
	standin_live("operations", -1);
	return success;
}
#endif

int ncclCommInitRank(void **out, int n, unique_id id, int rank)
{
	int rc = join(out, n, id, rank);
	comm *c = *out;
	while (rc == success && atomic_load(&c->w->come) < n)
		usleep(50);
	if (rc == success)
		c->ready = 1;
	return rc;
}

int ncclCommGetAsyncError(void *comm_, int *state)
{
	comm *c = comm_;
	if (!standin_current())
		return refuse(cuda_error, "no context");
	enter(c);
	*state = success;
	if (atomic_load(&c->failed)) {
		*state = c->failed;
		refuse(0, "the stand-in has lost another rank, or ranks differ");
	} else if (c->left > 0) {
		c->left--;
		*state = in_progress;
	} else if (c->pending) {
		standin_enqueue(c->pending->stream, perform, c->pending);
		c->pending = NULL;
	} else if (!c->ready) {
		c->ready = !c->stuck && atomic_load(&c->w->come) >= c->n;
		*state = c->ready ? success : in_progress;
	} else if (c->finalizing && atomic_load(&c->outstanding) > 0) {
		*state = in_progress;
	}
	return leave(c, success);
}

static int end(comm *c, int abort)
{
	if (!standin_current())
		return refuse(cuda_error, "no context");
	enter(c);
	if (abort)
		atomic_store(&c->aborted, 1);
	if (c->pending)
		perform(c->pending); /* aborted, so nothing is done */
	while (atomic_load(&c->outstanding) > 0)
		usleep(50);
	munmap(c->w, sizeof *c->w);
	memset(c, 0x5a, sizeof *c); /* who uses it now finds a thread inside */
	standin_live("communicators", -1);
	return success; /* never freed, for that */
}

int ncclCommDestroy(void *c) { return end(c, 0); }
int ncclCommAbort(void *c) { return end(c, 1); }

#define CALL(k, t, o, r, n, s_, r_) issue(comm_, stream, (call){{k, t, o, r, n, 0}, s_, r_})
int ncclAllReduce(const void *s, void *r, size_t n, int t, int op, void *comm_, void *stream) { return CALL(all_reduce, t, op, 0, n, s, r); }
int ncclReduceScatter(const void *s, void *r, size_t n, int t, int op, void *comm_, void *stream) { return CALL(reduce_scatter, t, op, 0, n, s, r); }
int ncclAllGather(const void *s, void *r, size_t n, int t, void *comm_, void *stream) { return CALL(all_gather, t, 0, 0, n, s, r); }
int ncclBroadcast(const void *s, void *r, size_t n, int t, int root, void *comm_, void *stream) { return CALL(broadcast, t, 0, root, n, s, r); }
int ncclReduce(const void *s, void *r, size_t n, int t, int op, int root, void *comm_, void *stream) { return CALL(reduce, t, op, root, n, s, r); }
int ncclSend(const void *s, size_t n, int t, int peer, void *comm_, void *stream) { return CALL(send_to, t, 0, peer, n, s, NULL); }
int ncclRecv(void *r, size_t n, int t, int peer, void *comm_, void *stream) { return CALL(recv_from, t, 0, peer, n, NULL, r); }

int ncclGroupStart(void) { grouped++; return success; }

int ncclGroupEnd(void)
{
	batch *b = group;
	if (grouped == 0)
		return refuse(invalid_usage, "no group was started");
	if (--grouped > 0 || b == NULL)
		return success;
	group = NULL;
	comm *c = b->c;
	enter(c);
	return leave(c, submit(b)); /* which may free b */
}
