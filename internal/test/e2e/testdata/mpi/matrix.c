/* Sixty small MPI programs in one: matrix NAME... runs those named, matrix without a name lists them. Rank 0 prints "ok NAME" when all ranks
 * agree that a program passed, and "bad NAME" otherwise. Names that end with ! end the job themselves. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;
static char *self;
static int left(void) { return (rank + size - 1) % size; }
static int right(void) { return (rank + 1) % size; }
static MPI_Comm W;

#define CHECK(x) do { if (!(x)) { fprintf(stderr, "rank %d: %s:%d: %s\n", rank, __func__, __LINE__, #x); return 0; } } while (0)

/* Point to point. */
static int ring(void) {
	int got = -1;
	MPI_Sendrecv(&rank, 1, MPI_INT, right(), 0, &got, 1, MPI_INT, left(), 0, W, MPI_STATUS_IGNORE);
	CHECK(got == left());
	return 1;
}
static int large(void) {
	int n = 1 << 20, *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
	for (int i = 0; i < n; i++)
		a[i] = i ^ rank;
	MPI_Sendrecv(a, n, MPI_INT, right(), 0, b, n, MPI_INT, left(), 0, W, MPI_STATUS_IGNORE);
	for (int i = 0; i < n; i += 997)
		CHECK(b[i] == (i ^ left()));
	free(a);
	free(b);
	return 1;
}
static int nonblocking(void) {
	MPI_Request r[2];
	int got = -1;
	MPI_Irecv(&got, 1, MPI_INT, left(), 1, W, &r[0]);
	MPI_Isend(&rank, 1, MPI_INT, right(), 1, W, &r[1]);
	MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
	CHECK(got == left());
	return 1;
}
static int synchronous(void) {
	MPI_Request r;
	int got = -1;
	MPI_Irecv(&got, 1, MPI_INT, left(), 2, W, &r);
	MPI_Ssend(&rank, 1, MPI_INT, right(), 2, W);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	CHECK(got == left());
	return 1;
}
static int buffered(void) {
	int room = MPI_BSEND_OVERHEAD + 64, got = -1;
	void *buffer = malloc(room);
	MPI_Buffer_attach(buffer, room);
	MPI_Bsend(&rank, 1, MPI_INT, right(), 3, W);
	MPI_Recv(&got, 1, MPI_INT, left(), 3, W, MPI_STATUS_IGNORE);
	MPI_Buffer_detach(&buffer, &room);
	free(buffer);
	CHECK(got == left());
	return 1;
}
static int ready_send(void) {
	MPI_Request r;
	int got = -1;
	MPI_Irecv(&got, 1, MPI_INT, left(), 4, W, &r);
	MPI_Barrier(W);
	MPI_Rsend(&rank, 1, MPI_INT, right(), 4, W);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	CHECK(got == left());
	return 1;
}
static int persistent(void) {
	MPI_Request r[2];
	int out, got = -1;
	MPI_Recv_init(&got, 1, MPI_INT, left(), 5, W, &r[0]);
	MPI_Send_init(&out, 1, MPI_INT, right(), 5, W, &r[1]);
	for (int i = 0; i < 5; i++) {
		out = rank + i;
		MPI_Startall(2, r);
		MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
		CHECK(got == left() + i);
	}
	MPI_Request_free(&r[0]);
	MPI_Request_free(&r[1]);
	return 1;
}
static int any_source(void) {
	int sum = 0, got;
	MPI_Request r;
	if (rank > 0) {
		MPI_Isend(&rank, 1, MPI_INT, 0, 6 + rank, W, &r);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		return 1;
	}
	for (int i = 1; i < size; i++) {
		MPI_Status s;
		MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, W, &s);
		CHECK(s.MPI_SOURCE == got && s.MPI_TAG == 6 + got);
		sum += got;
	}
	CHECK(sum == size * (size - 1) / 2);
	return 1;
}
static int probe(void) {
	MPI_Request r;
	MPI_Status s;
	int n = rank + 1, count, values[64] = {0}, got[64];
	MPI_Isend(values, n, MPI_INT, right(), 7, W, &r);
	MPI_Probe(left(), 7, W, &s);
	MPI_Get_count(&s, MPI_INT, &count);
	MPI_Recv(got, 64, MPI_INT, left(), 7, W, MPI_STATUS_IGNORE);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	CHECK(count == left() + 1);
	return 1;
}
static int matched_probe(void) {
	MPI_Request r;
	MPI_Message m;
	MPI_Status s;
	int got = -1;
	MPI_Isend(&rank, 1, MPI_INT, right(), 8, W, &r);
	MPI_Mprobe(left(), 8, W, &m, &s);
	MPI_Mrecv(&got, 1, MPI_INT, &m, MPI_STATUS_IGNORE);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	CHECK(got == left());
	return 1;
}
static int cancel(void) {
	MPI_Request r;
	MPI_Status s;
	int got, yes = 0;
	MPI_Irecv(&got, 1, MPI_INT, left(), 999, W, &r);
	MPI_Cancel(&r);
	MPI_Wait(&r, &s);
	MPI_Test_cancelled(&s, &yes);
	CHECK(yes);
	return 1;
}
static int to_nobody(void) {
	int got = 7;
	MPI_Status s;
	MPI_Send(&rank, 1, MPI_INT, MPI_PROC_NULL, 0, W);
	MPI_Recv(&got, 1, MPI_INT, MPI_PROC_NULL, 0, W, &s);
	CHECK(got == 7 && s.MPI_SOURCE == MPI_PROC_NULL);
	return 1;
}
static int wait_some(void) {
	MPI_Request r[8];
	int got[8], n = size < 8 ? size : 8, done = 0, which[8];
	for (int i = 0; i < n; i++)
		MPI_Irecv(&got[i], 1, MPI_INT, i, 9, W, &r[i]);
	for (int i = 0; i < n; i++)
		if (rank < n)
			MPI_Send(&rank, 1, MPI_INT, i, 9, W);
	while (done < n) {
		int count;
		MPI_Waitsome(n, r, &count, which, MPI_STATUSES_IGNORE);
		for (int i = 0; i < count; i++)
			CHECK(got[which[i]] == which[i]);
		done += count;
	}
	return 1;
}

/* Collectives. */
static int barrier(void) { return MPI_Barrier(W) == MPI_SUCCESS; }
static int bcast(void) {
	for (int root = 0; root < size; root++) {
		int v = rank == root ? root + 10 : -1;
		MPI_Bcast(&v, 1, MPI_INT, root, W);
		CHECK(v == root + 10);
	}
	return 1;
}
static int bcast_large(void) {
	int n = 300000, *a = malloc(n * sizeof *a);
	for (int i = 0; i < n; i++)
		a[i] = rank == 0 ? i : -1;
	MPI_Bcast(a, n, MPI_INT, 0, W);
	for (int i = 0; i < n; i += 101)
		CHECK(a[i] == i);
	free(a);
	return 1;
}
static int reduce(void) {
	int sum = -1;
	MPI_Reduce(&rank, &sum, 1, MPI_INT, MPI_SUM, size - 1, W);
	CHECK(rank != size - 1 || sum == size * (size - 1) / 2);
	return 1;
}
static int allreduce(void) {
	double v = rank, max = -1, n = 200000, *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
	MPI_Allreduce(&v, &max, 1, MPI_DOUBLE, MPI_MAX, W);
	CHECK(max == size - 1);
	for (int i = 0; i < n; i++)
		a[i] = i + rank;
	MPI_Allreduce(a, b, n, MPI_DOUBLE, MPI_SUM, W);
	for (int i = 0; i < n; i += 97)
		CHECK(b[i] == (double)i * size + size * (size - 1) / 2);
	free(a);
	free(b);
	return 1;
}
static int maxloc(void) {
	struct { double v; int at; } mine = {rank == 0 ? 9 : rank / 100., rank}, best;
	MPI_Allreduce(&mine, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, W);
	CHECK(best.at == 0 && best.v == 9);
	return 1;
}
static void lesser(void *in, void *out, int *n, MPI_Datatype *t) {
	(void)t;
	for (int i = 0; i < *n; i++)
		if (((int *)in)[i] < ((int *)out)[i])
			((int *)out)[i] = ((int *)in)[i];
}
static int own_operation(void) {
	MPI_Op op;
	int v = rank + 5, got = -1;
	MPI_Op_create(lesser, 1, &op);
	MPI_Allreduce(&v, &got, 1, MPI_INT, op, W);
	MPI_Op_free(&op);
	CHECK(got == 5);
	return 1;
}
static int gather(void) {
	int all[64];
	MPI_Gather(&rank, 1, MPI_INT, all, 1, MPI_INT, 0, W);
	for (int i = 0; rank == 0 && i < size; i++)
		CHECK(all[i] == i);
	return 1;
}
static int gatherv(void) {
	int mine[64], all[64 * 64], counts[64], at[64], n = 0;
	for (int i = 0; i <= rank; i++)
		mine[i] = rank;
	for (int i = 0; i < size; n += counts[i++])
		at[i] = n, counts[i] = i + 1;
	MPI_Gatherv(mine, rank + 1, MPI_INT, all, counts, at, MPI_INT, 0, W);
	for (int i = 0; rank == 0 && i < size; i++)
		CHECK(all[at[i]] == i && all[at[i] + i] == i);
	return 1;
}
static int scatter(void) {
	int all[64], got = -1;
	for (int i = 0; i < size; i++)
		all[i] = 3 * i;
	MPI_Scatter(all, 1, MPI_INT, &got, 1, MPI_INT, 0, W);
	CHECK(got == 3 * rank);
	return 1;
}
static int scatterv(void) {
	int all[64 * 64], got[64], counts[64], at[64], n = 0;
	for (int i = 0; i < size; n += counts[i++]) {
		at[i] = n, counts[i] = i + 1;
		for (int k = 0; k <= i; k++)
			all[n + k] = i;
	}
	MPI_Scatterv(all, counts, at, MPI_INT, got, rank + 1, MPI_INT, 0, W);
	CHECK(got[0] == rank && got[rank] == rank);
	return 1;
}
static int allgather(void) {
	int all[64];
	MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, W);
	for (int i = 0; i < size; i++)
		CHECK(all[i] == i);
	return 1;
}
static int allgatherv(void) {
	int mine[64], all[64 * 64], counts[64], at[64], n = 0;
	for (int i = 0; i <= rank; i++)
		mine[i] = rank;
	for (int i = 0; i < size; n += counts[i++])
		at[i] = n, counts[i] = i + 1;
	MPI_Allgatherv(mine, rank + 1, MPI_INT, all, counts, at, MPI_INT, W);
	for (int i = 0; i < size; i++)
		CHECK(all[at[i]] == i && all[at[i] + i] == i);
	return 1;
}
static int alltoall(void) {
	int out[64], in[64];
	for (int i = 0; i < size; i++)
		out[i] = rank * 100 + i;
	MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, W);
	for (int i = 0; i < size; i++)
		CHECK(in[i] == i * 100 + rank);
	return 1;
}
static int alltoallv(void) {
	int out[64 * 64], in[64 * 64], oc[64], oa[64], ic[64], ia[64], n = 0, m = 0;
	for (int i = 0; i < size; i++) {
		oc[i] = i + 1, oa[i] = n, n += i + 1;
		ic[i] = rank + 1, ia[i] = m, m += rank + 1;
		for (int k = 0; k <= i; k++)
			out[oa[i] + k] = rank;
	}
	MPI_Alltoallv(out, oc, oa, MPI_INT, in, ic, ia, MPI_INT, W);
	for (int i = 0; i < size; i++)
		CHECK(in[ia[i]] == i && in[ia[i] + rank] == i);
	return 1;
}
static int alltoallw(void) {
	int out[64], in[64], one[64], at[64];
	MPI_Datatype t[64];
	for (int i = 0; i < size; i++)
		out[i] = rank, one[i] = 1, at[i] = i * (int)sizeof(int), t[i] = MPI_INT;
	MPI_Alltoallw(out, one, at, t, in, one, at, t, W);
	for (int i = 0; i < size; i++)
		CHECK(in[i] == i);
	return 1;
}
static int reduce_scatter(void) {
	int v[64], counts[64], got = -1;
	for (int i = 0; i < size; i++)
		v[i] = i, counts[i] = 1;
	MPI_Reduce_scatter(v, &got, counts, MPI_INT, MPI_SUM, W);
	CHECK(got == rank * size);
	return 1;
}
static int reduce_scatter_block(void) {
	int v[64], got = -1;
	for (int i = 0; i < size; i++)
		v[i] = i;
	MPI_Reduce_scatter_block(v, &got, 1, MPI_INT, MPI_SUM, W);
	CHECK(got == rank * size);
	return 1;
}
static int scan(void) {
	int v = rank + 1, got = -1;
	MPI_Scan(&v, &got, 1, MPI_INT, MPI_SUM, W);
	CHECK(got == (rank + 1) * (rank + 2) / 2);
	return 1;
}
static int exscan(void) {
	int v = rank + 1, got = 0;
	MPI_Exscan(&v, &got, 1, MPI_INT, MPI_SUM, W);
	CHECK(rank == 0 || got == rank * (rank + 1) / 2);
	return 1;
}
static int later_collectives(void) {
	MPI_Request r[3];
	int sum = -1, v = rank == 0 ? 4 : -1;
	MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, W, &r[0]);
	MPI_Ibcast(&v, 1, MPI_INT, 0, W, &r[1]);
	MPI_Ibarrier(W, &r[2]);
	MPI_Waitall(3, r, MPI_STATUSES_IGNORE);
	CHECK(sum == size * (size - 1) / 2 && v == 4);
	return 1;
}
static int later_alltoall(void) {
	int out[64], in[64];
	MPI_Request r;
	for (int i = 0; i < size; i++)
		out[i] = rank * 100 + i;
	MPI_Ialltoall(out, 1, MPI_INT, in, 1, MPI_INT, W, &r);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	for (int i = 0; i < size; i++)
		CHECK(in[i] == i * 100 + rank);
	return 1;
}
static int neighbours(void) {
	MPI_Comm cart;
	int dims[1] = {size}, periods[1] = {1}, in[2] = {-1, -1};
	MPI_Cart_create(W, 1, dims, periods, 0, &cart);
	MPI_Neighbor_allgather(&rank, 1, MPI_INT, in, 1, MPI_INT, cart);
	MPI_Comm_free(&cart);
	CHECK(in[0] == left() && in[1] == right());
	return 1;
}

/* Datatypes. */
static int vector_type(void) {
	int a[16], b[4] = {-1, -1, -1, -1};
	MPI_Datatype t;
	for (int i = 0; i < 16; i++)
		a[i] = rank * 16 + i;
	MPI_Type_vector(4, 1, 4, MPI_INT, &t);
	MPI_Type_commit(&t);
	MPI_Sendrecv(a, 1, t, right(), 10, b, 4, MPI_INT, left(), 10, W, MPI_STATUS_IGNORE);
	MPI_Type_free(&t);
	for (int i = 0; i < 4; i++)
		CHECK(b[i] == left() * 16 + 4 * i);
	return 1;
}
static int struct_type(void) {
	struct { char c; double d; } a = {'x', rank}, b = {0, -1};
	int lengths[2] = {1, 1};
	MPI_Aint at[2] = {0, (char *)&a.d - (char *)&a};
	MPI_Datatype parts[2] = {MPI_CHAR, MPI_DOUBLE}, t;
	MPI_Type_create_struct(2, lengths, at, parts, &t);
	MPI_Type_commit(&t);
	MPI_Sendrecv(&a, 1, t, right(), 11, &b, 1, t, left(), 11, W, MPI_STATUS_IGNORE);
	MPI_Type_free(&t);
	CHECK(b.c == 'x' && b.d == left());
	return 1;
}
static int pack(void) {
	char buffer[64];
	int at = 0, i = rank;
	double d = rank / 2.;
	MPI_Pack(&i, 1, MPI_INT, buffer, sizeof buffer, &at, W);
	MPI_Pack(&d, 1, MPI_DOUBLE, buffer, sizeof buffer, &at, W);
	MPI_Sendrecv_replace(buffer, at, MPI_PACKED, right(), 12, left(), 12, W, MPI_STATUS_IGNORE);
	int from = 0;
	MPI_Unpack(buffer, at, &from, &i, 1, MPI_INT, W);
	MPI_Unpack(buffer, at, &from, &d, 1, MPI_DOUBLE, W);
	CHECK(i == left() && d == left() / 2.);
	return 1;
}

/* Communicators. */
static int duplicate(void) {
	MPI_Comm c;
	int same;
	MPI_Comm_dup(W, &c);
	MPI_Comm_compare(W, c, &same);
	MPI_Barrier(c);
	MPI_Comm_free(&c);
	CHECK(same == MPI_CONGRUENT);
	return 1;
}
static int split(void) {
	MPI_Comm c;
	int n, sum = -1, want = 0;
	MPI_Comm_split(W, rank % 2, -rank, &c);
	MPI_Comm_size(c, &n);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, c);
	MPI_Comm_free(&c);
	for (int i = rank % 2; i < size; i += 2)
		want += i;
	CHECK(sum == want);
	return 1;
}
static int split_shared(void) {
	MPI_Comm c, leaders;
	int n, me, total = 0;
	MPI_Comm_split_type(W, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &c);
	MPI_Comm_size(c, &n);
	MPI_Comm_rank(c, &me);
	MPI_Comm_split(W, me == 0 ? 0 : MPI_UNDEFINED, 0, &leaders);
	if (me == 0) {
		MPI_Allreduce(&n, &total, 1, MPI_INT, MPI_SUM, leaders);
		MPI_Comm_free(&leaders);
	}
	MPI_Bcast(&total, 1, MPI_INT, 0, c);
	MPI_Comm_free(&c);
	CHECK(total == size);
	return 1;
}
static int groups(void) {
	MPI_Group all, some;
	MPI_Comm c = MPI_COMM_NULL;
	int first[1] = {0}, n = 0;
	MPI_Comm_group(W, &all);
	MPI_Group_incl(all, 1, first, &some);
	MPI_Comm_create(W, some, &c);
	if (rank == 0) {
		MPI_Comm_size(c, &n);
		MPI_Comm_free(&c);
	}
	MPI_Group_free(&all);
	MPI_Group_free(&some);
	CHECK(rank > 0 ? c == MPI_COMM_NULL : n == 1);
	return 1;
}
static int create_group(void) {
	MPI_Group all, some;
	MPI_Comm c;
	int n = 0, range[1][3] = {{0, (size - 1) / 2, 1}};
	MPI_Comm_group(W, &all);
	MPI_Group_range_incl(all, 1, range, &some);
	if (rank <= (size - 1) / 2) {
		MPI_Comm_create_group(W, some, 5, &c);
		MPI_Allreduce(MPI_IN_PLACE, &n, 1, MPI_INT, MPI_SUM, c);
		MPI_Comm_size(c, &n);
		MPI_Comm_free(&c);
		CHECK(n == (size - 1) / 2 + 1);
	}
	MPI_Group_free(&all);
	MPI_Group_free(&some);
	return 1;
}
static int cartesian(void) {
	MPI_Comm c;
	int dims[2] = {0, 0}, periods[2] = {1, 1}, at[2], same;
	MPI_Dims_create(size, 2, dims);
	MPI_Cart_create(W, 2, dims, periods, 0, &c);
	MPI_Cart_coords(c, rank, 2, at);
	MPI_Cart_rank(c, at, &same);
	MPI_Comm_free(&c);
	CHECK(same == rank && dims[0] * dims[1] == size);
	return 1;
}
static int intercommunicator(void) {
	MPI_Comm half, inter, merged;
	int n = 0, other = 0;
	if (size < 2)
		return 1;
	MPI_Comm_split(W, rank % 2, rank, &half);
	MPI_Intercomm_create(half, 0, W, rank % 2 ? 0 : 1, 13, &inter);
	MPI_Comm_remote_size(inter, &other);
	MPI_Intercomm_merge(inter, rank % 2, &merged);
	MPI_Comm_size(merged, &n);
	MPI_Comm_free(&merged);
	MPI_Comm_free(&inter);
	MPI_Comm_free(&half);
	CHECK(n == size && other == (rank % 2 ? (size + 1) / 2 : size / 2));
	return 1;
}
static int attributes(void) {
	int key, found = 0, *value, *top, mine = 5;
	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
	MPI_Comm_set_attr(W, key, &mine);
	MPI_Comm_get_attr(W, key, &value, &found);
	CHECK(found && *value == 5);
	MPI_Comm_delete_attr(W, key);
	MPI_Comm_free_keyval(&key);
	MPI_Comm_get_attr(W, MPI_TAG_UB, &top, &found);
	CHECK(found && *top >= 32767);
	return 1;
}
static int names(void) {
	char text[MPI_MAX_OBJECT_NAME], host[MPI_MAX_PROCESSOR_NAME];
	int n;
	MPI_Comm_get_name(MPI_COMM_WORLD, text, &n);
	CHECK(strcmp(text, "MPI_COMM_WORLD") == 0);
	MPI_Get_processor_name(host, &n);
	CHECK(n > 0);
	return 1;
}
static int errors_returned(void) {
	int code, class;
	MPI_Comm_set_errhandler(W, MPI_ERRORS_RETURN);
	code = MPI_Send(&rank, 1, MPI_INT, size + 5, 0, W);
	MPI_Comm_set_errhandler(W, MPI_ERRORS_ARE_FATAL);
	CHECK(code != MPI_SUCCESS);
	MPI_Error_class(code, &class);
	CHECK(class == MPI_ERR_RANK);
	return 1;
}

/* One-sided. */
static int put_fence(void) {
	int *mine;
	MPI_Win w;
	MPI_Win_allocate(sizeof *mine, sizeof *mine, MPI_INFO_NULL, W, &mine, &w);
	*mine = -1;
	MPI_Win_fence(0, w);
	MPI_Put(&rank, 1, MPI_INT, right(), 0, 1, MPI_INT, w);
	MPI_Win_fence(0, w);
	int got = *mine;
	MPI_Win_free(&w);
	CHECK(got == left());
	return 1;
}
static int get_lock(void) {
	int mine = rank + 50, got = -1;
	MPI_Win w;
	MPI_Win_create(&mine, sizeof mine, sizeof mine, MPI_INFO_NULL, W, &w);
	MPI_Win_lock(MPI_LOCK_SHARED, right(), 0, w);
	MPI_Get(&got, 1, MPI_INT, right(), 0, 1, MPI_INT, w);
	MPI_Win_unlock(right(), w);
	MPI_Win_free(&w);
	CHECK(got == right() + 50);
	return 1;
}
static int accumulate(void) {
	int mine = 0, one = 1;
	MPI_Win w;
	MPI_Win_create(&mine, sizeof mine, sizeof mine, MPI_INFO_NULL, W, &w);
	MPI_Win_fence(0, w);
	for (int i = 0; i < size; i++)
		MPI_Accumulate(&one, 1, MPI_INT, i, 0, 1, MPI_INT, MPI_SUM, w);
	MPI_Win_fence(0, w);
	MPI_Win_free(&w);
	CHECK(mine == size);
	return 1;
}
static int fetch_and_op(void) {
	int mine = 0, one = 1, before, sum = 0;
	MPI_Win w;
	MPI_Win_create(&mine, sizeof mine, sizeof mine, MPI_INFO_NULL, W, &w);
	MPI_Win_lock_all(0, w);
	MPI_Fetch_and_op(&one, &before, MPI_INT, 0, 0, MPI_SUM, w);
	MPI_Win_unlock_all(w);
	MPI_Win_free(&w);
	MPI_Allreduce(&before, &sum, 1, MPI_INT, MPI_SUM, W);
	CHECK(sum == size * (size - 1) / 2);
	return 1;
}
static int post_start(void) {
	int mine = -1, to = right(), from = left();
	MPI_Group all, source, target;
	MPI_Win w;
	MPI_Comm_group(W, &all);
	MPI_Group_incl(all, 1, &from, &source);
	MPI_Group_incl(all, 1, &to, &target);
	MPI_Win_create(&mine, sizeof mine, sizeof mine, MPI_INFO_NULL, W, &w);
	MPI_Win_post(source, 0, w);
	MPI_Win_start(target, 0, w);
	MPI_Put(&rank, 1, MPI_INT, to, 0, 1, MPI_INT, w);
	MPI_Win_complete(w);
	MPI_Win_wait(w);
	MPI_Win_free(&w);
	MPI_Group_free(&all);
	MPI_Group_free(&source);
	MPI_Group_free(&target);
	CHECK(mine == left());
	return 1;
}
static int shared_window(void) {
	MPI_Comm here;
	MPI_Win w;
	int *mine, *first, me, unit;
	MPI_Aint n;
	MPI_Comm_split_type(W, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
	MPI_Comm_rank(here, &me);
	MPI_Win_allocate_shared(me == 0 ? sizeof *mine : 0, sizeof *mine, MPI_INFO_NULL, here, &mine, &w);
	MPI_Win_shared_query(w, 0, &n, &unit, &first);
	MPI_Win_fence(0, w);
	if (me == 0)
		*first = 77;
	MPI_Win_fence(0, w);
	int got = *first;
	MPI_Win_free(&w);
	MPI_Comm_free(&here);
	CHECK(got == 77);
	return 1;
}

/* Files. Ranks of several hosts need not share one: each host writes its own. */
static const char *file_name(void) {
	static char name[4096];
	snprintf(name, sizeof name, "%s/matrix.%s", getenv("MATRIX_DIR") ? getenv("MATRIX_DIR") : "/tmp", getenv("MATRIX_RUN") ? getenv("MATRIX_RUN") : "file");
	return name;
}
static int file_of(int collective) {
	MPI_Comm here;
	MPI_File f;
	int me, n, got = -1;
	MPI_Comm_split_type(W, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
	MPI_Comm_rank(here, &me);
	MPI_Comm_size(here, &n);
	CHECK(MPI_File_open(here, file_name(), MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &f) == MPI_SUCCESS);
	if (collective)
		MPI_File_write_at_all(f, me * (MPI_Offset)sizeof me, &me, 1, MPI_INT, MPI_STATUS_IGNORE);
	else
		MPI_File_write_at(f, me * (MPI_Offset)sizeof me, &me, 1, MPI_INT, MPI_STATUS_IGNORE);
	MPI_File_sync(f);
	MPI_Barrier(here);
	MPI_File_sync(f);
	int other = (me + 1) % n;
	MPI_File_read_at(f, other * (MPI_Offset)sizeof me, &got, 1, MPI_INT, MPI_STATUS_IGNORE);
	MPI_File_close(&f);
	MPI_Comm_free(&here);
	CHECK(got == other);
	return 1;
}
static int file(void) { return file_of(0); }
static int file_together(void) { return file_of(1); }

/* Threads, time, names, info. */
static void *thread_ring(void *argument) {
	int tag = *(int *)argument, got = -1;
	MPI_Sendrecv(&rank, 1, MPI_INT, right(), tag, &got, 1, MPI_INT, left(), tag, W, MPI_STATUS_IGNORE);
	*(int *)argument = got == left();
	return NULL;
}
static int threads(void) {
	int level, tags[4], good = 1;
	pthread_t t[4];
	MPI_Query_thread(&level);
	if (level < MPI_THREAD_MULTIPLE)
		return 1;
	for (int i = 0; i < 4; i++) {
		tags[i] = 20 + i;
		pthread_create(&t[i], NULL, thread_ring, &tags[i]);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		good = good && tags[i] == 1;
	}
	CHECK(good);
	return 1;
}
static int clock_runs(void) {
	double a = MPI_Wtime(), b;
	usleep(2000);
	b = MPI_Wtime();
	CHECK(b > a && MPI_Wtick() > 0);
	return 1;
}
static int info(void) {
	MPI_Info i;
	char text[16] = "";
	int found = 0;
	MPI_Info_create(&i);
	MPI_Info_set(i, "key", "value");
	MPI_Info_get(i, "key", 15, text, &found);
	MPI_Info_free(&i);
	CHECK(found && strcmp(text, "value") == 0);
	return 1;
}
static int program_number(void) {
	int *n, found = 0;
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &n, &found);
	CHECK(!found || *n == 0);
	return 1;
}
static int publish(void) {
	char port[MPI_MAX_PORT_NAME] = "";
	int good = 1;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(W, MPI_ERRORS_RETURN);
	if (rank == 0)
		good = MPI_Publish_name("matrix", MPI_INFO_NULL, "some#port") == MPI_SUCCESS;
	MPI_Barrier(W);
	good = MPI_Lookup_name("matrix", MPI_INFO_NULL, port) == MPI_SUCCESS && strcmp(port, "some#port") == 0 && good;
	MPI_Barrier(W);
	if (rank == 0)
		MPI_Unpublish_name("matrix", MPI_INFO_NULL, "some#port");
	MPI_Comm_set_errhandler(W, MPI_ERRORS_ARE_FATAL);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	CHECK(good);
	return 1;
}

/* Alone in a job. */
static int spawn_two(void) {
	MPI_Comm children;
	int mine = 100, sum = -1;
	char *words[] = {"child", NULL};
	MPI_Comm_spawn(self, words, 2, MPI_INFO_NULL, 0, W, &children, MPI_ERRCODES_IGNORE);
	MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, children);
	MPI_Comm_disconnect(&children);
	CHECK(sum == 3);
	return 1;
}
static int spawn_merge(void) {
	MPI_Comm children, all;
	int n = 0;
	char *words[] = {"merge", NULL};
	MPI_Comm_spawn(self, words, 1, MPI_INFO_NULL, 0, W, &children, MPI_ERRCODES_IGNORE);
	MPI_Intercomm_merge(children, 0, &all);
	MPI_Comm_size(all, &n);
	MPI_Barrier(all);
	MPI_Comm_free(&all);
	MPI_Comm_disconnect(&children);
	CHECK(n == size + 1);
	return 1;
}
static int abort_job(void) {
	if (rank == size - 1)
		MPI_Abort(MPI_COMM_WORLD, 7);
	MPI_Barrier(W);
	sleep(60);
	return 1;
}
static int exit_early(void) {
	if (rank == size - 1)
		exit(3);
	MPI_Barrier(W);
	sleep(60);
	return 1;
}
static int crash(void) {
	if (rank == size - 1)
		abort();
	MPI_Barrier(W);
	sleep(60);
	return 1;
}

static int child(const char *how, MPI_Comm parents) {
	int mine = rank + 1, sum = -1;
	if (strcmp(how, "merge") == 0) {
		MPI_Comm all;
		MPI_Intercomm_merge(parents, 1, &all);
		MPI_Barrier(all);
		MPI_Comm_free(&all);
	} else {
		MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, parents);
	}
	MPI_Comm_disconnect(&parents);
	MPI_Finalize();
	return 0;
}

#define P(f) {#f, f}
static const struct { const char *name; int (*run)(void); } programs[] = {
	P(ring), P(large), P(nonblocking), P(synchronous), P(buffered), P(ready_send), P(persistent), P(any_source), P(probe), P(matched_probe), P(cancel),
	P(to_nobody), P(wait_some), P(barrier), P(bcast), P(bcast_large), P(reduce), P(allreduce), P(maxloc), P(own_operation), P(gather), P(gatherv),
	P(scatter), P(scatterv), P(allgather), P(allgatherv), P(alltoall), P(alltoallv), P(alltoallw), P(reduce_scatter), P(reduce_scatter_block), P(scan),
	P(exscan), P(later_collectives), P(later_alltoall), P(neighbours), P(vector_type), P(struct_type), P(pack), P(duplicate), P(split), P(split_shared),
	P(groups), P(create_group), P(cartesian), P(intercommunicator), P(attributes), P(names), P(errors_returned), P(put_fence), P(get_lock), P(accumulate),
	P(fetch_and_op), P(post_start), P(shared_window), P(file), P(file_together), P(threads), P(clock_runs), P(info), P(program_number), P(publish),
	{"spawn_two!", spawn_two}, {"spawn_merge!", spawn_merge}, {"abort_job!", abort_job}, {"exit_early!", exit_early}, {"crash!", crash},
};
enum { COUNT = sizeof programs / sizeof *programs };

int main(int argc, char **argv) {
	if (argc == 1) {
		for (int i = 0; i < COUNT; i++)
			puts(programs[i].name);
		return 0;
	}
	int level;
	MPI_Comm parents;
	self = argv[0];
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm_get_parent(&parents);
	if (parents != MPI_COMM_NULL)
		return child(argv[1], parents);
	MPI_Comm_dup(MPI_COMM_WORLD, &W);
	for (int a = 1; a < argc; a++)
		for (int i = 0; i < COUNT; i++) {
			if (strcmp(argv[a], programs[i].name) != 0 && (strcmp(argv[a], "all") != 0 || strchr(programs[i].name, '!')))
				continue;
			int good = programs[i].run(), all = 0;
			MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, W);
			if (rank == 0) {
				printf("%s %s\n", all ? "ok" : "bad", programs[i].name);
				fflush(stdout);
			}
		}
	MPI_Comm_free(&W);
	MPI_Finalize();
	return 0;
}
