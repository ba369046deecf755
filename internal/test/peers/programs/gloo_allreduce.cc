// Times gloo::allreduce of float sums over its TCP transport, as PyTorch uses it,
// and prints for each size: bytes and the median time of one call in µs, the slowest rank's.
// usage: gloo_allreduce RANK SIZE STOREDIR ADDRESS MINBYTES MAXBYTES
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main(int argc, char **argv) {
  if (argc != 7) return 2;
  int rank = atoi(argv[1]), size = atoi(argv[2]);
  size_t min = strtoull(argv[5], nullptr, 0), max = strtoull(argv[6], nullptr, 0);
  gloo::transport::tcp::attr attr;
  attr.hostname = argv[4];
  auto device = gloo::transport::tcp::CreateDevice(attr);
  gloo::rendezvous::FileStore store(argv[3]);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  context->connectFullMesh(store, device);
  std::vector<float> src(max / 4), dst(max / 4);
  for (size_t i = 0; i < src.size(); i++) src[i] = (float)((i % 7 + 1) * (rank + 1));
  for (size_t bytes = min; bytes <= max; bytes *= 4) {
    size_t count = bytes / 4;
    auto call = [&] {
      gloo::AllreduceOptions o(context);
      o.setInput(src.data(), count);
      o.setOutput(dst.data(), count);
      o.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
      o.setReduceFunction([](void *a, const void *b, const void *c, size_t n) {
        gloo::sum<float>((float *)a, (const float *)b, (const float *)c, n);
      });
      gloo::allreduce(o);
    };
    for (int i = 0; i < 3; i++) call();
    // The number of samples depends on the size alone: all ranks must agree on it.
    int samples = bytes <= 65536 ? 500 : bytes <= (4u << 20) ? 60 : 9;
    std::vector<double> times;
    for (int s = 0; s < samples; s++) {
      double begun = now();
      call();
      times.push_back((now() - begun) * 1e6);
    }
    for (size_t i = 0; i < count; i++)
      if (dst[i] != (float)((i % 7 + 1) * size * (size + 1) / 2)) {
        fprintf(stderr, "wrong result at %zu of %zu\n", i, count);
        return 1;
      }
    std::sort(times.begin(), times.end());
    double slowest = times[samples / 2];
    gloo::AllreduceOptions of_all(context);
    of_all.setOutput(&slowest, 1);
    of_all.setReduceFunction([](void *a, const void *b, const void *c, size_t n) {
      gloo::max<double>((double *)a, (const double *)b, (const double *)c, n);
    });
    gloo::allreduce(of_all);
    if (rank == 0) printf("%zu %.3f\n", bytes, slowest);
    fflush(stdout);
  }
  gloo::BarrierOptions last(context);
  gloo::barrier(last);
}
