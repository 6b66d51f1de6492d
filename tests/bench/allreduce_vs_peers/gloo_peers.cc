// Gloo's ring and halving-doubling over TCP, as Debian packages them (libgloo-dev).
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/types.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/allreduce_vs_peers/candidate.h"

namespace ringmaster {
namespace {

using ContextPtr = std::shared_ptr<gloo::rendezvous::Context>;

ContextPtr Connect(int rank, int world_size, const std::string& directory,
                   const char* prefix) {
  gloo::transport::tcp::attr attr;
  attr.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(attr);
  gloo::rendezvous::FileStore files(directory);
  gloo::rendezvous::PrefixStore store(prefix, files);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, world_size);
  context->connectFullMesh(store, device);
  return context;
}

class GlooRing final : public Candidate {
 public:
  explicit GlooRing(ContextPtr context) : context_(std::move(context)) {}
  std::string name() const override { return "Gloo ring"; }

  absl::Status AllReduce(std::span<float> values) override {
    gloo::AllreduceOptions options(context_);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setOutput(values.data(), values.size());
    void (*sum)(void*, const void*, const void*, size_t) = &gloo::sum<float>;
    options.setReduceFunction(sum);
    options.setTag(tag_++);
    gloo::allreduce(options);
    return absl::OkStatus();
  }

 private:
  ContextPtr context_;
  uint32_t tag_ = 0;
};

// The same on 16-bit floats: as many elements, in a buffer of their own.
class GlooRingHalf final : public Candidate {
 public:
  explicit GlooRingHalf(ContextPtr context) : context_(std::move(context)) {}
  std::string name() const override { return "Gloo ring fp16"; }

  void Prepare(std::span<float> values) override {
    halves_.resize(values.size());
  }
  void Load(std::span<const float> values) override {
    for (size_t i = 0; i < values.size(); ++i)
      halves_[i] = gloo::cpu_float2half_rn(values[i]);
  }
  void Store(std::span<float> values) override {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = gloo::cpu_half2float(halves_[i]);
  }

  absl::Status AllReduce(std::span<float> /*values*/) override {
    gloo::AllreduceOptions options(context_);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setOutput(halves_.data(), halves_.size());
    void (*sum)(void*, const void*, const void*, size_t) =
        &gloo::sum<gloo::float16>;
    options.setReduceFunction(sum);
    options.setTag(tag_++);
    gloo::allreduce(options);
    return absl::OkStatus();
  }

 private:
  ContextPtr context_;
  std::vector<gloo::float16> halves_;
  uint32_t tag_ = 0;
};

// This algorithm is bound to a buffer when it is made. It hangs if a peer's bytes come before it is, hence Prepare.
class GlooHalvingDoubling final : public Candidate {
 public:
  // With `is_busy` the connections are looked at all the time instead of by a thread that sleeps.
  GlooHalvingDoubling(ContextPtr context, bool is_busy)
      : context_(std::move(context)), is_busy_(is_busy) {
    for (int peer = 0; is_busy && peer < context_->size; ++peer) {
      if (peer != context_->rank) context_->getPair(peer)->setSync(true, true);
    }
  }
  std::string name() const override {
    return is_busy_ ? "Gloo halving-doubling, busy-polling"
                    : "Gloo halving-doubling";
  }
  // A synchronous send of more than sockets hold waits for the peer, which waits for us.
  int64_t max_bytes() const override {
    return is_busy_ ? 64 << 10 : Candidate::max_bytes();
  }

  void Prepare(std::span<float> values) override {
    algorithm_ = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(
        context_, std::vector<float*>{values.data()},
        static_cast<int>(values.size()));
  }

  absl::Status AllReduce(std::span<float> /*values*/) override {
    algorithm_->run();
    return absl::OkStatus();
  }

 private:
  const ContextPtr context_;
  const bool is_busy_;
  std::unique_ptr<gloo::AllreduceHalvingDoubling<float>> algorithm_;
};

}  // namespace

Candidates MakePeers(int rank, int world_size, const std::string& directory) {
  const auto connect = [&](const char* prefix) {
    return Connect(rank, world_size, directory, prefix);
  };
  Candidates peers;
  peers.push_back(std::make_unique<GlooRing>(connect("ring")));
  peers.push_back(
      std::make_unique<GlooHalvingDoubling>(connect("halving"), false));
  // Where every rank has a core.
  if (world_size <= sysconf(_SC_NPROCESSORS_ONLN)) {
    peers.push_back(
        std::make_unique<GlooHalvingDoubling>(connect("busy"), true));
  }
  peers.push_back(std::make_unique<GlooRingHalf>(connect("half")));
  return peers;
}

}  // namespace ringmaster
