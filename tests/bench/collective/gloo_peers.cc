// Gloo's ring and halving-doubling over TCP, as Debian packages them (libgloo-dev).
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "tests/bench/collective/candidate.h"

// Stands before libc's for this program: gives Gloo's sockets the congestion control that ours choose on links inside
// a host. With BBR, where that is the kernel's default, Gloo would be measured at a fraction of its speed.
extern "C" int socket(int domain, int type, int protocol) {
  const int fd = static_cast<int>(syscall(SYS_socket, domain, type, protocol));
  constexpr char kControl[] = "cubic";
  if (fd >= 0 && (domain == AF_INET || domain == AF_INET6)) {
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kControl,
                     sizeof kControl - 1);
  }
  return fd;
}

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

// This algorithm is bound to a buffer when it is made. It hangs if a peer's bytes come before it is, hence Prepare.
class GlooHalvingDoubling final : public Candidate {
 public:
  explicit GlooHalvingDoubling(ContextPtr context)
      : context_(std::move(context)) {}
  std::string name() const override { return "Gloo halving-doubling"; }

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
  ContextPtr context_;
  std::unique_ptr<gloo::AllreduceHalvingDoubling<float>> algorithm_;
};

}  // namespace

std::vector<std::unique_ptr<Candidate>> MakePeers(
    int rank, int world_size, const std::string& directory) {
  std::vector<std::unique_ptr<Candidate>> peers;
  peers.push_back(
      std::make_unique<GlooRing>(Connect(rank, world_size, directory, "ring")));
  peers.push_back(std::make_unique<GlooHalvingDoubling>(
      Connect(rank, world_size, directory, "halving")));
  return peers;
}

}  // namespace ringmaster
