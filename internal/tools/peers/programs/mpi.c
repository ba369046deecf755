// Times a collective of MPI on floats, out of place, and prints median and 99th percentile of one call in µs, the slowest
// rank's. BYTES are the whole vector; a sample is BATCH calls.
// usage: mpi allreduce|allgather|reducescatter|alltoall BYTES BATCH SECONDS
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *collective;
static int ranks, rank, count, part; // elements of the vector, and of each rank's part
static float *src, *dst;

static void call(void) {
  switch (collective[3]) {
  case 'r': MPI_Allreduce(src, dst, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); break;
  case 'g': MPI_Allgather(src, part, MPI_FLOAT, dst, part, MPI_FLOAT, MPI_COMM_WORLD); break;
  case 'u': MPI_Reduce_scatter_block(src, dst, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); break;
  case 't': MPI_Alltoall(src, part, MPI_FLOAT, dst, part, MPI_FLOAT, MPI_COMM_WORLD); break;
  }
}

// value is element i of a rank's vector.
static float value(int i, int of) { return (float)((i % 7 + 1) * (of + 1)); }

// want is element i of this rank's result.
static float want(int i) {
  int all = ranks * (ranks + 1) / 2;
  switch (collective[3]) {
  case 'r': return value(i, 0) * all;
  case 'g': return value(i % part, i / part);
  case 'u': return value(rank * part + i, 0) * all;
  }
  return value(rank * part + i % part, i / part);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc != 5) MPI_Abort(MPI_COMM_WORLD, 2);
  collective = argv[1];
  count = atoi(argv[2]) / 4;
  int batch = atoi(argv[3]);
  part = count / ranks;
  if (strcmp(collective, "allreduce")) count = part * ranks;
  src = malloc(count * sizeof *src), dst = malloc(count * sizeof *dst);
  for (int i = 0; i < count; i++) src[i] = value(i, rank);
  memset(dst, 0, count * sizeof *dst);

  call();
  for (int i = 0; i < (collective[3] == 'u' ? part : count); i++)
    if (dst[i] != want(i)) {
      fprintf(stderr, "wrong result at %d of %d\n", i, count);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  // Warm up until a run of calls is long enough to tell how many fit the time, as gorun bench does.
  double begun, took, most[2], seconds = atof(argv[4]);
  int calls = 3;
  for (;; calls *= 4) {
    begun = MPI_Wtime();
    for (int i = 0; i < calls; i++) call();
    took = MPI_Wtime() - begun;
    MPI_Allreduce(&took, most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (most[0] >= seconds / 20 || calls > 50000) break;
  }
  int samples = seconds / (most[0] / calls * batch);
  samples = samples < 10 ? 10 : samples > 50000 ? 50000 : samples;
  double *times = malloc(samples * sizeof *times);
  for (int s = 0; s < samples; s++) {
    begun = MPI_Wtime();
    for (int i = 0; i < batch; i++) call();
    times[s] = (MPI_Wtime() - begun) / batch * 1e6;
  }
  qsort(times, samples, sizeof *times, by_value);
  double mine[2] = {times[samples / 2], times[samples * 99 / 100]};
  MPI_Allreduce(mine, most, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0) printf("%.4f %.4f\n", most[0], most[1]);
  MPI_Finalize();
  return 0;
}
