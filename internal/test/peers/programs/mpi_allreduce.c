// Times MPI_Allreduce of float sums out of place, and prints for each size:
// bytes and the median time of one call in µs, the slowest rank's.
// usage: mpi_allreduce MINBYTES MAXBYTES
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int size, rank;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc != 3) MPI_Abort(MPI_COMM_WORLD, 2);
  size_t min = strtoull(argv[1], 0, 0), max = strtoull(argv[2], 0, 0);
  float *src = malloc(max), *dst = malloc(max);
  for (size_t bytes = min; bytes <= max; bytes *= 4) {
    size_t count = bytes / 4;
    for (size_t i = 0; i < count; i++) src[i] = (float)((i % 7 + 1) * (rank + 1));
    // Samples of at least a few calls, as many as take about 0.2 s.
    int batch = bytes <= 4096 ? 20 : 1;
    double begun = MPI_Wtime();
    for (int i = 0; i < 3 * batch; i++) MPI_Allreduce(src, dst, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    double each = (MPI_Wtime() - begun) / (3 * batch), slowest;
    MPI_Allreduce(&each, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    int samples = (int)(0.2 / (slowest * batch));
    samples = samples < 9 ? 9 : samples > 5000 ? 5000 : samples;
    double *times = malloc(samples * sizeof *times);
    for (int s = 0; s < samples; s++) {
      begun = MPI_Wtime();
      for (int i = 0; i < batch; i++) MPI_Allreduce(src, dst, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      times[s] = (MPI_Wtime() - begun) / batch * 1e6;
    }
    for (size_t i = 0; i < count; i++)
      if (dst[i] != (float)((i % 7 + 1) * size * (size + 1) / 2)) {
        fprintf(stderr, "wrong result at %zu of %zu\n", i, count);
        MPI_Abort(MPI_COMM_WORLD, 1);
      }
    qsort(times, samples, sizeof *times, by_value);
    MPI_Allreduce(&times[samples / 2], &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0) printf("%zu %.3f\n", bytes, slowest);
    fflush(stdout);
    free(times);
  }
  MPI_Finalize();
  return 0;
}
