/* A small MPI program for tests: every rank says who it is, and all of them add up pi.
 * pi [abort CODE | leave | spawn | wait | publish | absent | late]. Rank 1 ends or hangs before MPI_Init with the last two. */
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

static void spawn(int rank, char *self) {
	MPI_Comm children;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (MPI_Comm_spawn(self, MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE) != MPI_SUCCESS)
		printf("%d: not spawned\n", rank);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
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
	MPI_Comm here;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
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
		spawn(rank, argv[0]);
	else if (argc > 1 && strcmp(argv[1], "publish") == 0)
		publish(rank);
	else if (argc > 1)
		misbehave(rank, argv[1], argc > 2 ? atoi(argv[2]) : 1);
	MPI_Finalize();
	return 0;
}
