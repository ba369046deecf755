// Times a collective of Gloo on floats over its TCP transport, as PyTorch uses it, and prints median and 99th percentile of
// one call in µs, the slowest rank's. BYTES are the whole vector; a sample is BATCH calls. Gloo's reduce-scatter works in
// place, the others out of place.
// usage: gloo RANK SIZE STOREDIR ADDRESS allreduce|allgather|reducescatter|alltoall BYTES BATCH SECONDS
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// value is element i of a rank's vector.
static float value(int i, int rank) { return (float)((i % 7 + 1) * (rank + 1)); }

// largest returns the maxima over all ranks.
static std::vector<double> largest(std::shared_ptr<gloo::rendezvous::Context> context, std::vector<double> values) {
  gloo::AllreduceOptions o(context);
  o.setOutput(values.data(), values.size());
  o.setReduceFunction([](void *a, const void *b, const void *c, size_t n) {
    gloo::max<double>((double *)a, (const double *)b, (const double *)c, n);
  });
  gloo::allreduce(o);
  return values;
}

int main(int argc, char **argv) {
  if (argc != 9) return 2;
  int rank = atoi(argv[1]), ranks = atoi(argv[2]), count = atoi(argv[6]) / 4, batch = atoi(argv[7]);
  std::string collective = argv[5];
  int part = count / ranks, all = ranks * (ranks + 1) / 2;
  if (collective != "allreduce") count = part * ranks;
  gloo::transport::tcp::attr attr;
  attr.hostname = argv[4];
  auto device = gloo::transport::tcp::CreateDevice(attr);
  gloo::rendezvous::FileStore store(argv[3]);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);
  std::vector<float> src(count), dst(count);
  for (int i = 0; i < count; i++) src[i] = value(i, rank);

  std::function<void()> call;
  std::function<float(int)> want;
  int results = count;
  std::unique_ptr<gloo::ReduceScatterHalvingDoubling<float>> scatter;
  if (collective == "allreduce") {
    call = [&] {
      gloo::AllreduceOptions o(context);
      o.setInput(src.data(), count);
      o.setOutput(dst.data(), count);
      o.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
      o.setReduceFunction([](void *a, const void *b, const void *c, size_t n) {
        gloo::sum<float>((float *)a, (const float *)b, (const float *)c, n);
      });
      gloo::allreduce(o);
    };
    want = [&](int i) { return value(i, 0) * all; };
  } else if (collective == "allgather") {
    call = [&] {
      gloo::AllgatherOptions o(context);
      o.setInput(src.data(), part);
      o.setOutput(dst.data(), count);
      gloo::allgather(o);
    };
    want = [&](int i) { return value(i % part, i / part); };
  } else if (collective == "alltoall") {
    call = [&] {
      gloo::AlltoallOptions o(context);
      o.setInput(src.data(), count);
      o.setOutput(dst.data(), count);
      gloo::alltoall(o);
    };
    want = [&](int i) { return value(rank * part + i % part, i / part); };
  } else {
    scatter.reset(new gloo::ReduceScatterHalvingDoubling<float>(context, {src.data()}, count, std::vector<int>(ranks, part)));
    call = [&] { scatter->run(); };
    results = 0; // not checked: it copies its result over memory that it may still be sending, and is wrong now and then
  }

  call();
  for (int i = 0; i < results; i++)
    if (dst[i] != want(i)) {
      fprintf(stderr, "wrong result at %d of %d\n", i, count);
      return 1;
    }
  // Warm up until a run of calls is long enough to tell how many fit the time, as gorun bench does.
  double begun, took, seconds = atof(argv[8]);
  int calls = 3;
  for (;; calls *= 4) {
    begun = now();
    for (int i = 0; i < calls; i++) call();
    took = largest(context, {now() - begun})[0];
    if (took >= seconds / 20 || calls > 50000) break;
  }
  int samples = (int)(seconds / (took / calls * batch));
  samples = std::min(std::max(samples, 10), 50000);
  std::vector<double> times;
  for (int s = 0; s < samples; s++) {
    begun = now();
    for (int i = 0; i < batch; i++) call();
    times.push_back((now() - begun) / batch * 1e6);
  }
  std::sort(times.begin(), times.end());
  auto slowest = largest(context, {times[samples / 2], times[samples * 99 / 100]});
  if (rank == 0) printf("%.4f %.4f\n", slowest[0], slowest[1]);
  gloo::BarrierOptions last(context);
  gloo::barrier(last);
}
