#include "worker/collective/nccl/nccl_communicator.h"

#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status/status_macros.h"
#include "worker/collective/nccl/nccl_peers.h"
#include "worker/collective/nccl/nccl_request.h"
#include "worker/collective/nccl/nccl_subgroup.h"
#include "worker/device/cuda/nccl_library.h"

namespace ringmaster {
namespace {

// Tickets whose place is known longer than they need.
constexpr size_t kKeptPlaces = 1024;

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown host";
}

// Returns true if a communicator that returned it runs no more collectives.
bool IsFailure(const absl::Status& status) {
  return !status.ok() && !absl::IsInvalidArgument(status) &&
         !absl::IsResourceExhausted(status);
}

}  // namespace

absl::StatusOr<std::unique_ptr<NcclCommunicator>> NcclCommunicator::Create(
    const Options& options, std::unique_ptr<Communicator> host,
    MonotonicTime deadline, const CancelToken* cancel) {
  RETURN_IF_ERROR(options.device->MakeCurrent());
  if (options.retired != nullptr) {
    const absl::Status collected = options.retired->Collect();
    if (!collected.ok() && options.on_abort_hung)
      options.on_abort_hung(collected);
    RETURN_IF_ERROR(collected);
  }
  std::unique_ptr<NcclCommunicator> communicator(
      new NcclCommunicator(options, std::move(host)));
  Communicator& mesh = *communicator->host_;
  ASSIGN_OR_RETURN(
      communicator->engine_,
      NcclEngine::Create({.device = options.device,
                          .clock = options.clock,
                          .trace = options.trace,
                          .rank = mesh.rank(),
                          .generation = options.generation,
                          .abort_timeout = options.abort_timeout,
                          .retired = options.retired,
                          .cancel = cancel,
                          .on_failure = [&mesh](const absl::Status& why) {
                            mesh.Abort(std::string(why.message()));
                          }}));
  if (mesh.world_size() > 1) {
    const absl::Status connected = communicator->Connect(deadline);
    // A cancellation fails the engine first, and the mesh only in turn.
    RETURN_IF_ERROR(communicator->engine_->failure());
    RETURN_IF_ERROR(connected);
  }
  communicator->engine_->Connected();
  return communicator;
}

absl::Status NcclCommunicator::Connect(MonotonicTime deadline) {
  NcclRankFacts own;
  own.gpu_uuid = options_.device->uuid();
  own.host_name = HostName();
  own.settings = options_.settings;
  const absl::Status settings = ApplyNcclSettings(options_.settings);
  const absl::StatusOr<NcclLibrary> library = NcclLibrary::Load();
  if (library.ok()) own.version = library->version();
  for (const absl::Status& status : {settings, library.status()}) {
    if (own.error.empty()) own.error = std::string(status.message());
  }
  ASSIGN_OR_RETURN(const std::vector<NcclRankFacts> ranks,
                   ExchangeNcclFacts(own, *host_, deadline));
  RETURN_IF_ERROR(CheckNcclRanks(ranks));
  ASSIGN_OR_RETURN(const NcclId id,
                   AgreeOnNcclId([&library] { return NewNcclId(*library); },
                                 *host_, deadline));
  return engine_->Connect(*library, id, world_size(), options_.arena, deadline);
}

NcclCommunicator::~NcclCommunicator() {
  if (engine_ != nullptr) {
    NcclEngine::Close(std::move(engine_), options_.on_abort_hung);
  }
}

absl::StatusOr<std::unique_ptr<Communicator>> NcclCommunicator::Split(
    int color, int key, MonotonicTime deadline) {
  if (world_size() == 1) {
    return absl::FailedPreconditionError("a world of one rank cannot be split");
  }
  ASSIGN_OR_RETURN(const NcclEngine::Membership membership,
                   engine_->Split(color, key, deadline));
  if (membership.group == NcclComms::kNoGroup) {
    return std::unique_ptr<Communicator>();
  }
  return std::make_unique<NcclSubgroup>(*engine_, membership, *options_.compute,
                                        options_.settings);
}

Ticket NcclCommunicator::Admit(Place place) {
  while (places_.size() >= kKeptPlaces && IsComplete(places_.front())) {
    places_.pop_front();
  }
  places_.push_back(place);
  return {++started_};
}

bool NcclCommunicator::IsComplete(const Place& place) const {
  const int64_t completed = place.memory == MemoryKind::kCuda
                                ? engine_->totals().completed
                                : host_->progress().completed;
  return completed >= place.sequence;
}

absl::StatusOr<const NcclCommunicator::Place*> NcclCommunicator::Find(
    Ticket ticket) const {
  if (ticket.sequence < 1 || ticket.sequence > started_) {
    return absl::InvalidArgumentError(
        absl::StrCat("ticket ", ticket.sequence, " was never given out"));
  }
  const int64_t first = started_ - static_cast<int64_t>(places_.size()) + 1;
  if (ticket.sequence < first) return nullptr;
  return &places_[static_cast<size_t>(ticket.sequence - first)];
}

absl::Status NcclCommunicator::FromHost(const absl::Status& status) {
  if (!IsFailure(status)) return status;
  engine_->Fail(status);
  return engine_->failure();
}

absl::StatusOr<Ticket> NcclCommunicator::Start(
    const CollectiveRequest& request) {
  RETURN_IF_ERROR(engine_->failure());
  if (request.buffer.memory == MemoryKind::kCuda) {
    RETURN_IF_ERROR(CheckNcclRequest(request, world_size(), options_.settings));
    ASSIGN_OR_RETURN(
        const int64_t sequence,
        engine_->Start(0, request,
                       TrafficByTheory(request, rank(), world_size()),
                       *options_.compute));
    return Admit({MemoryKind::kCuda, sequence});
  }
  const absl::StatusOr<Ticket> ticket = host_->Start(request);
  if (!ticket.ok()) return FromHost(ticket.status());
  return Admit({MemoryKind::kHost, ticket->sequence});
}

absl::Status NcclCommunicator::Wait(Ticket ticket, MonotonicTime deadline) {
  ASSIGN_OR_RETURN(const Place* const place, Find(ticket));
  if (place == nullptr) return absl::OkStatus();
  if (place->memory == MemoryKind::kCuda) {
    return engine_->Wait(place->sequence, deadline);
  }
  return FromHost(host_->Wait({place->sequence}, deadline));
}

absl::Status NcclCommunicator::WaitOnStream(Ticket ticket, CudaStream& stream,
                                            MonotonicTime deadline) {
  ASSIGN_OR_RETURN(const Place* const place, Find(ticket));
  if (place == nullptr) return absl::OkStatus();
  if (place->memory != MemoryKind::kCuda) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ticket ", ticket.sequence,
        " is of a buffer in host memory: streams cannot wait for it"));
  }
  return engine_->WaitOnStream(place->sequence, stream, deadline);
}

absl::Status NcclCommunicator::Run(const CollectiveRequest& request,
                                   MonotonicTime deadline) {
  if (request.buffer.memory == MemoryKind::kCuda) {
    return Communicator::Run(request, deadline);
  }
  RETURN_IF_ERROR(engine_->failure());
  RETURN_IF_ERROR(FromHost(host_->Run(request, deadline)));
  // No other collective is started meanwhile, so the last one there is this
  // one.
  static_cast<void>(Admit({MemoryKind::kHost, host_->progress().started}));
  return absl::OkStatus();
}

void NcclCommunicator::Abort(std::string_view why) {
  engine_->Fail(absl::AbortedError(absl::StrCat(
      "rank ", rank(), " was aborted at generation ", options_.generation, ": ",
      absl::string_view(why.data(), why.size()))));
}

Algorithm NcclCommunicator::AlgorithmFor(
    const CollectiveRequest& request) const {
  if (request.buffer.memory != MemoryKind::kCuda) {
    return host_->AlgorithmFor(request);
  }
  return options_.settings.ring ? Algorithm::kRing : Algorithm::kAuto;
}

CollectiveProgress NcclCommunicator::progress() const {
  CollectiveProgress progress = host_->progress();
  const NcclEngine::Totals totals = engine_->totals();
  progress.completed += totals.completed;
  progress.started += totals.started;
  if (progress.waiting_for_rank < 0 && totals.is_in_collective)
    progress.waiting_for_rank = (rank() + world_size() - 1) % world_size();
  return progress;
}

WireCounters NcclCommunicator::counters() const {
  WireCounters counters = host_->counters();
  const NcclTraffic traffic = engine_->totals().traffic;
  counters.payload_sent_bytes += traffic.sent_bytes;
  counters.payload_received_bytes += traffic.received_bytes;
  return counters;
}

absl::Duration NcclCommunicator::AllReduceTime() const {
  return host_->AllReduceTime() + engine_->totals().all_reduce;
}

}  // namespace ringmaster
