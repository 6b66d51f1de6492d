#include "worker/collective/nccl/testing/rank_program.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/plan/partition.h"
#include "common/status/status_macros.h"
#include "common/transport/tcp.h"
#include "worker/collective/connect_mesh.h"
#include "worker/collective/nccl/nccl_communicator.h"
#include "worker/collective/nccl/nccl_settings.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_stream.h"

namespace ringmaster {
namespace {

// The exit code that makes the supervisor start another worker.
constexpr int kRetryElsewhere = 138;

MonotonicTime InTime() { return Clock::Real().Now() + absl::Seconds(30); }

bool IsSet(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::string(value) == "1";
}

// A rank's elements, small enough for exact sums.
std::vector<float> Elements(int rank, int64_t count) {
  std::vector<float> elements;
  for (int64_t i = 0; i < count; ++i) {
    elements.push_back(static_cast<float>((rank + 1) * (i % 13 + 1)));
  }
  return elements;
}

std::vector<float>::const_iterator At(const std::vector<float>& elements,
                                      int64_t i) {
  return elements.begin() + i;
}

class RankProgram {
 public:
  static absl::StatusOr<std::unique_ptr<RankProgram>> Create() {
    auto program = std::make_unique<RankProgram>();
    program->settings_ = {.share_gpu = IsSet(kShareGpuVariable),
                          .ring = IsSet(kRingVariable)};
    RETURN_IF_ERROR(ApplyNcclSettings(program->settings_));
    ASSIGN_OR_RETURN(program->device_, CudaDevice::Open(0));
    ASSIGN_OR_RETURN(program->compute_, CudaStream::Create("compute"));
    ASSIGN_OR_RETURN(Listener listener, Listener::Listen("127.0.0.1:0"));
    program->listener_.emplace(std::move(listener));
    return program;
  }

  std::string address() const { return listener_->address().ToString(); }

  absl::Status Execute(std::istringstream& line) {
    std::string command;
    line >> command;
    if (command == "connect") return Connect(line);
    if (command == "drop") {
      communicator_.reset();
      return absl::OkStatus();
    }
    if (communicator_ == nullptr) {
      return absl::FailedPreconditionError("there is no communicator");
    }
    if (command == "check") return Check();
    if (command == "reduce") {
      int64_t count = 0;
      line >> count;
      return Reduce(count);
    }
    return absl::InvalidArgumentError(absl::StrCat("no command: ", command));
  }

 private:
  absl::Status Connect(std::istringstream& line) {
    communicator_.reset();
    MeshConfig mesh;
    line >> mesh.generation >> mesh.rank;
    std::string address;
    while (line >> address) {
      mesh.peers.push_back({static_cast<int>(mesh.peers.size()), address});
    }
    mesh.job_id = "job";
    mesh.topology = Topology::OneHost(static_cast<int>(mesh.peers.size()));
    mesh.secret = absl::StrCat("the secret of generation ", mesh.generation);
    mesh.deadline = InTime();
    mesh.clock = &Clock::Real();
    ASSIGN_OR_RETURN(std::unique_ptr<Communicator> host,
                     ConnectMesh(*listener_, mesh, nullptr));
    ASSIGN_OR_RETURN(communicator_, NcclCommunicator::Create(
                                        {.device = device_.get(),
                                         .compute = compute_.get(),
                                         .generation = mesh.generation,
                                         .settings = settings_,
                                         .clock = &Clock::Real(),
                                         .abort_timeout = absl::Seconds(3),
                                         .retired = &retired_,
                                         .on_abort_hung =
                                             [](const absl::Status& why) {
                                               std::cerr << why << std::endl;
                                               _exit(kRetryElsewhere);
                                             }},
                                        std::move(host), InTime(), nullptr));
    return absl::OkStatus();
  }

  // Runs what `request` makes of a buffer on the device with `elements`, which
  // gets the result.
  absl::Status RunOn(
      std::vector<float>& elements,
      const std::function<CollectiveRequest(BufferView)>& request) {
    const auto bytes = static_cast<int64_t>(elements.size() * sizeof(float));
    ASSIGN_OR_RETURN(const Allocation memory,
                     device_->allocator().Allocate(bytes));
    compute_->CopyToDevice(memory.data(), elements.data(), bytes);
    BufferView view = BufferView::Of(elements);
    view.ptr = memory.data();
    view.memory = MemoryKind::kCuda;
    const absl::Status status = communicator_->Run(request(view), InTime());
    if (!status.ok()) {
      // The buffer may be written to until the communicator is gone.
      communicator_.reset();
      return status;
    }
    compute_->CopyToHost(elements.data(), memory.data(), bytes);
    return compute_->Synchronize();
  }

  absl::Status Reduce(int64_t count) {
    const int n = communicator_->world_size();
    std::vector<float> elements = Elements(communicator_->rank(), count);
    RETURN_IF_ERROR(RunOn(elements, AllReduceSum));
    std::vector<float> sums = Elements(0, count);
    for (float& sum : sums) sum *= static_cast<float>(n * (n + 1) / 2);
    if (elements == sums) return absl::OkStatus();
    return absl::DataLossError("a wrong sum");
  }

  absl::Status Check() {
    const int n = communicator_->world_size();
    const int own = communicator_->rank();
    for (const int64_t count : {1, 1000, 65'537, 3'000'000}) {
      RETURN_IF_ERROR(Reduce(count));
    }
    for (int root = 0; root < n; ++root) {
      std::vector<float> elements = Elements(own, 5001);
      RETURN_IF_ERROR(RunOn(elements, [root](const BufferView& view) {
        return Broadcast(view, root);
      }));
      if (elements != Elements(root, 5001)) {
        return absl::DataLossError("a wrong broadcast");
      }
    }
    for (const int64_t count : {int64_t{6000}, int64_t{5003}}) {
      std::vector<float> gathered = Elements(own, count);
      RETURN_IF_ERROR(RunOn(gathered, AllGather));
      std::vector<float> scattered = Elements(own, count);
      RETURN_IF_ERROR(RunOn(scattered, ReduceScatterSum));
      for (int rank = 0; rank < n; ++rank) {
        const ElemRange chunk = ChunkOf(rank, n, count);
        const std::vector<float> expected = Elements(rank, count);
        std::vector<float> sums = Elements(0, count);
        for (float& sum : sums) sum *= static_cast<float>(n * (n + 1) / 2);
        if (!std::equal(At(expected, chunk.begin), At(expected, chunk.end()),
                        At(gathered, chunk.begin))) {
          return absl::DataLossError("a wrong all-gather");
        }
        if (rank == own &&
            !std::equal(At(sums, chunk.begin), At(sums, chunk.end()),
                        At(scattered, chunk.begin))) {
          return absl::DataLossError("a wrong reduce-scatter");
        }
      }
    }
    return absl::OkStatus();
  }

  NcclSettings settings_;
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<CudaStream> compute_;
  std::optional<Listener> listener_;
  NcclRetired retired_;
  std::unique_ptr<NcclCommunicator> communicator_;
};

}  // namespace

int RunRankProgram() {
  const auto program = RankProgram::Create();
  if (!program.ok()) {
    std::cout << (absl::IsFailedPrecondition(program.status()) ? "skip "
                                                               : "failed ")
              << program.status() << std::endl;
    return 1;
  }
  std::cout << "address " << (*program)->address() << std::endl;
  std::string text;
  while (std::getline(std::cin, text)) {
    const MonotonicTime begin = Clock::Real().Now();
    std::istringstream line(text);
    const absl::Status status = (*program)->Execute(line);
    if (status.ok()) {
      std::cout << "ok " << absl::ToDoubleSeconds(Clock::Real().Now() - begin)
                << std::endl;
    } else {
      std::cout << status << std::endl;
    }
  }
  return 0;
}

}  // namespace ringmaster
