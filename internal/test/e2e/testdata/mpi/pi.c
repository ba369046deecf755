/* A small MPI program for tests: every rank says who it is, and all of them add up pi.
 * pi [abort CODE | leave | spawn [HOW [HOST]] | alone [HOW [HOST]] | wait | publish | absent | late]. Rank 1 ends or hangs before MPI_Init with the
 * last two. New ranks do what HOW says, which may be another program, on HOST. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { steps = 100000 };

static void misbehave(int rank, const char *how, int code) {
	if (strcmp(how, "abort") == 0 && rank == 1)
		MPI_Abort(MPI_COMM_WORLD, code);
	if (strcmp(how, "leave") == 0 && rank == 1)
		_exit(0);
	if (strcmp(how, "wait") == 0) {
		printf("up\n");
		fflush(stdout);
		sleep(300);
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

/* spawn starts two more ranks, in all or of rank 0 alone, that do what how says, and adds up with them. */
static void spawn(int rank, char *self, MPI_Comm by, char *how, char *host) {
	MPI_Comm children;
	int mine = 100, sum = -1;
	char *words[] = {how, NULL};
	MPI_Info info;
	MPI_Info_create(&info);
	if (host)
		MPI_Info_set(info, "host", host);
	MPI_Comm_set_errhandler(by, MPI_ERRORS_RETURN);
	if (MPI_Comm_spawn(*how == '/' ? how : self, words, 2, info, 0, by, &children, MPI_ERRCODES_IGNORE) != MPI_SUCCESS) {
		printf("%d: not spawned\n", rank);
		return;
	}
	MPI_Comm_set_errhandler(by, MPI_ERRORS_ARE_FATAL);
	MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, children);
	printf("%d: the new ranks add up to %d\n", rank, sum);
	MPI_Comm_disconnect(&children);
}

static void answer(int rank, int size, const char *how, MPI_Comm parents) {
	int mine = rank + 1, sum = -1;
	misbehave(rank, how, 42);
	MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, parents);
	printf("new %d of %d: the old ranks add up to %d\n", rank, size, sum);
	MPI_Comm_disconnect(&parents);
}

static void publish(int rank) {
	char port[MPI_MAX_PORT_NAME] = "";
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (rank == 0)
		MPI_Publish_name("ocean", MPI_INFO_NULL, "some#port$here");
	MPI_Barrier(MPI_COMM_WORLD);
	if (MPI_Lookup_name("ocean", MPI_INFO_NULL, port) == MPI_SUCCESS)
		printf("%d: found %s\n", rank, port);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		MPI_Unpublish_name("ocean", MPI_INFO_NULL, "some#port$here");
}

static void stay_away(const char *how) {
	const char *rank = getenv("GORUN_RANK");
	if (!rank || strcmp(rank, "1") != 0)
		return;
	if (strcmp(how, "absent") == 0)
		_exit(0);
	if (strcmp(how, "late") == 0)
		sleep(300);
}

int main(int argc, char **argv) {
	if (argc > 1)
		stay_away(argv[1]);
	int rank, size, node, known, *app;
	double part = 0, pi = 0;
	MPI_Comm here, parents;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm_get_parent(&parents);
	if (parents != MPI_COMM_NULL) {
		answer(rank, size, argv[1], parents);
		MPI_Finalize();
		return 0;
	}
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
	MPI_Comm_size(here, &node);
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &app, &known);
	for (int i = rank; i < steps; i += size) {
		double x = (i + 0.5) / steps;
		part += 4 / (1 + x * x) / steps;
	}
	MPI_Allreduce(&part, &pi, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	printf("%d of %d, %d on its node, program %d: %.6f\n", rank, size, node, known ? *app : -1, pi);
	fflush(stdout);
	if (argc > 1 && strcmp(argv[1], "spawn") == 0)
		spawn(rank, argv[0], MPI_COMM_WORLD, argc > 2 ? argv[2] : "well", argc > 3 ? argv[3] : NULL);
	else if (argc > 1 && strcmp(argv[1], "alone") == 0) {
		if (rank == 0)
			spawn(rank, argv[0], MPI_COMM_SELF, argc > 2 ? argv[2] : "well", argc > 3 ? argv[3] : NULL);
	}
	else if (argc > 1 && strcmp(argv[1], "publish") == 0)
		publish(rank);
	else if (argc > 1)
		misbehave(rank, argv[1], argc > 2 ? atoi(argv[2]) : 1);
	MPI_Finalize();
	return 0;
}
