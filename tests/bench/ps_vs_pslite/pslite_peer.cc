// Measures a synchronous step of parameter servers with ps-lite
// (https://github.com/dmlc/ps-lite): each worker pushes a gradient in parts and
// pulls their sum, part by part, once every worker's is in it.
//
// run.py builds it against a checkout of ps-lite and starts a scheduler, servers
// and workers of it (ps-lite's environment variables say which). Worker 0 prints
// a line of JSON: the bytes, and the seconds of each iteration. Every result is
// checked.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unordered_map>
#include <vector>

#include "ps/ps.h"

namespace {

struct Options {
  size_t bytes = 64 << 20;
  size_t part_bytes = 1 << 20;
  int iterations = 20;
  int warmup = 3;
};

// A part of the buffer on the server, and the workers that wait for its sum.
struct Part {
  std::vector<float> sum;
  int pushes = 0;
  int pulls = 0;
  std::vector<std::pair<ps::KVMeta, ps::KVPairs<float>>> waiting;
};

class SumServer {
 public:
  void Handle(const ps::KVMeta& meta, const ps::KVPairs<float>& request,
              ps::KVServer<float>* server) {
    Part& part = parts_[request.keys[0]];
    if (meta.push) {
      Add(part, request.vals);
      server->Response(meta);
      if (part.pushes < ps::NumWorkers()) return;
      for (const auto& [pull, pulled] : part.waiting)
        Answer(part, pull, pulled, server);
      part.waiting.clear();
    } else if (part.pushes < ps::NumWorkers()) {
      part.waiting.emplace_back(meta, request);
    } else {
      Answer(part, meta, request, server);
    }
  }

 private:
  static void Add(Part& part, const ps::SArray<float>& values) {
    if (part.pushes++ == 0) {
      part.sum.assign(values.begin(), values.end());
      return;
    }
    float* const sum = part.sum.data();
    const float* const value = values.data();
    const size_t count = values.size();
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) sum[i] += value[i];
  }

  static void Answer(Part& part, const ps::KVMeta& meta,
                     const ps::KVPairs<float>& request,
                     ps::KVServer<float>* server) {
    ps::KVPairs<float> reply;
    reply.keys = request.keys;
    reply.lens = {static_cast<int>(part.sum.size())};
    // A copy: the sum changes with the next step while this is on its way.
    reply.vals.CopyFrom(part.sum.data(), part.sum.size());
    server->Response(meta, reply);
    if (++part.pulls < ps::NumWorkers()) return;
    part.pushes = 0;
    part.pulls = 0;
  }

  std::unordered_map<ps::Key, Part> parts_;
};

class SumWorker {
 public:
  explicit SumWorker(const Options& options) : options_(options) {
    const size_t part_elems = options.part_bytes / sizeof(float);
    const size_t elems = options.bytes / sizeof(float);
    // Spread over the servers, which own equal ranges of keys.
    const size_t count = (elems + part_elems - 1) / part_elems;
    for (size_t i = 0; i < count; ++i) {
      const size_t size = std::min(part_elems, elems - i * part_elems);
      keys_.push_back({ps::kMaxKey / count * i});
      gradients_.emplace_back(size, 0.0f);
      sums_.emplace_back(size, 0.0f);
      lens_.push_back({static_cast<int>(size)});
    }
  }

  void Run() {
    std::vector<double> seconds;
    for (int i = 0; i < options_.warmup + options_.iterations; ++i) {
      const float value = static_cast<float>(i + 1 + ps::MyRank());
      for (auto& part : gradients_) std::fill(part.begin(), part.end(), value);
      ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup);
      const auto begin = std::chrono::steady_clock::now();
      PushPull();
      const std::chrono::duration<double> taken =
          std::chrono::steady_clock::now() - begin;
      if (i >= options_.warmup) seconds.push_back(taken.count());
      Check(i);
    }
    if (ps::MyRank() != 0) return;
    std::printf("{\"name\": \"ps-lite\", \"bytes\": %zu, \"seconds\": [",
                options_.bytes);
    for (size_t i = 0; i < seconds.size(); ++i)
      std::printf("%s%.9f", i == 0 ? "" : ", ", seconds[i]);
    std::printf("]}\n");
    std::fflush(stdout);
  }

 private:
  void PushPull() {
    std::vector<int> requests;
    for (size_t i = 0; i < keys_.size(); ++i)
      requests.push_back(worker_.ZPush(keys_[i], gradients_[i], lens_[i]));
    for (size_t i = 0; i < keys_.size(); ++i)
      requests.push_back(worker_.ZPull(keys_[i], &sums_[i], &lens_[i]));
    for (const int request : requests) worker_.Wait(request);
  }

  void Check(int iteration) const {
    float expected = 0;
    for (int rank = 0; rank < ps::NumWorkers(); ++rank)
      expected += static_cast<float>(iteration + 1 + rank);
    for (const auto& sum : sums_) {
      for (const float value : sum) {
        if (value == expected) continue;
        std::fprintf(stderr, "ps-lite: iteration %d has %f in place of %f\n",
                     iteration, value, expected);
        std::_Exit(1);
      }
    }
  }

  const Options options_;
  ps::KVWorker<float> worker_{0, 0};
  std::vector<ps::SArray<ps::Key>> keys_;
  std::vector<ps::SArray<int>> lens_;
  std::vector<ps::SArray<float>> gradients_;
  std::vector<ps::SArray<float>> sums_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr,
                 "usage: pslite_peer BYTES PART_BYTES ITERATIONS WARMUP\n");
    return 2;
  }
  Options options;
  options.bytes = std::strtoull(argv[1], nullptr, 10);
  options.part_bytes = std::strtoull(argv[2], nullptr, 10);
  options.iterations = std::atoi(argv[3]);
  options.warmup = std::atoi(argv[4]);
  ps::Start(0);
  SumServer sums;
  if (ps::IsServer()) {
    auto* const server = new ps::KVServer<float>(0);
    server->set_request_handle([&sums](const ps::KVMeta& meta,
                                       const ps::KVPairs<float>& request,
                                       ps::KVServer<float>* from) {
      sums.Handle(meta, request, from);
    });
    ps::RegisterExitCallback([server] { delete server; });
  }
  if (ps::IsWorker()) SumWorker(options).Run();
  ps::Finalize(0, true);
  return 0;
}
