/* How fast two ranks of MPI are: time of a small message one way and of a small allreduce in µs,
 * and MB/s of large messages. Each is the best of several tries. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { tries = 5, small = 8, large = 1 << 20 };

static char *buffer;

/* Seconds for one message there and back. */
static double roundtrip(int rank, int bytes, int times) {
	double began;
	MPI_Barrier(MPI_COMM_WORLD);
	began = MPI_Wtime();
	for (int i = 0; i < times; i++) {
		if (rank == 0)
			MPI_Send(buffer, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
		MPI_Recv(buffer, bytes, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (rank == 1)
			MPI_Send(buffer, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
	}
	return (MPI_Wtime() - began) / times;
}

static double allreduce(int times) {
	double began, mine = 1, sum;
	MPI_Barrier(MPI_COMM_WORLD);
	began = MPI_Wtime();
	for (int i = 0; i < times; i++)
		MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	return (MPI_Wtime() - began) / times;
}

static void keep(double *best, double seconds) {
	if (*best == 0 || seconds < *best)
		*best = seconds;
}

int main(int argc, char **argv) {
	int rank, size;
	double best[3] = {0, 0, 0};
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	buffer = calloc(1, large);
	if (size != 2 || buffer == NULL)
		MPI_Abort(MPI_COMM_WORLD, 2);
	for (int i = 0; i < tries; i++) {
		keep(&best[0], roundtrip(rank, small, 2000));
		keep(&best[1], allreduce(2000));
		keep(&best[2], roundtrip(rank, large, 60));
	}
	if (rank == 0)
		printf("%.4f %.4f %.1f\n", best[0] / 2 * 1e6, best[1] * 1e6, 2.0 * large / best[2] / 1e6);
	MPI_Finalize();
	return 0;
}
