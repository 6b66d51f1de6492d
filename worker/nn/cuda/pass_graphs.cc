#include "worker/nn/cuda/pass_graphs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/logging/logging.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"

namespace ringmaster::cuda {
namespace {

// A job has few kinds (whole batches; or first, further and last
// micro-batches). Those of a membership that is no more are worth nothing.
constexpr size_t kMostKinds = 8;

bool IsCancelled(const CancelToken* cancel) {
  return cancel != nullptr && cancel->is_cancelled();
}

}  // namespace

// Within a capture: records events where buckets are final, and begins the
// backward graph.
class PassGraphs::Recorder final : public GradientObserver {
 public:
  Recorder(CudaStream& stream, const std::vector<bool>& ends_bucket,
           Graphs& graphs)
      : stream_(stream), ends_bucket_(ends_bucket), graphs_(graphs) {}

  void OnForwardDone() override {
    Take(graphs_.forward);
    // The rest of the pass must not run, whether that went well or not. If it
    // does all the same, the stream's error says that it counts for nothing.
    const absl::Status begun = stream_.BeginCapture();
    is_capturing_ = begun.ok();
    stream_.Note(begun);
    status_.Update(begun);
  }
  void OnTensorDone(int tensor_index) override {
    RM_CHECK(tensor_index == next_tensor_, "tensors are told in plan order");
    if (ends_bucket_[static_cast<size_t>(next_tensor_++)])
      stream_.Record(*graphs_.ready[next_event_++]);
  }
  // Ends the backward graph. Returns the first error of either graph.
  [[nodiscard]] absl::Status Finish() {
    RM_CHECK(graphs_.ready.size() == next_event_, "a pass is captured whole");
    if (is_capturing_) Take(graphs_.backward);
    return status_;
  }

 private:
  void Take(std::unique_ptr<CudaGraph>& graph) {
    absl::StatusOr<std::unique_ptr<CudaGraph>> ended = stream_.EndCapture();
    status_.Update(ended.status());
    if (ended.ok()) graph = *std::move(ended);
  }

  CudaStream& stream_;
  const std::vector<bool>& ends_bucket_;
  Graphs& graphs_;
  absl::Status status_;
  bool is_capturing_ = true;
  int next_tensor_ = 0;
  size_t next_event_ = 0;
};

void PassGraphs::Bind(const Plan& plan) {
  Forget();
  ends_bucket_.clear();
  for (size_t i = 0; i < plan.tensors().size(); ++i) {
    ends_bucket_.push_back(
        !plan.BucketsCompletedBy(static_cast<int>(i)).empty());
  }
}

void PassGraphs::Forget() {
  if (kinds_.empty()) return;
  // Callers that wait for the passes get the error.
  static_cast<void>(cudaStreamSynchronize(stream_.get()));
  kinds_.clear();
}

void PassGraphs::Run(const Kind& kind, const CancelToken* cancel,
                     GradientObserver& observer, Pass pass) {
  if (!is_on_ || kind.samples == 0 || !stream_.status().ok())
    return pass(cancel, observer);
  // The members change, and with them, mostly, the batches.
  if (IsCancelled(cancel)) return Forget();
  if (HasExpired()) Forget();
  const auto found = kinds_.find(kind);
  if (found == kinds_.end()) {
    if (kinds_.size() == kMostKinds) Forget();
    pass(cancel, observer);
    // One that was cut short has not made all plans.
    if (!IsCancelled(cancel)) kinds_[kind] = Graphs();
    return;
  }
  if (found->second.backward == nullptr) {
    absl::StatusOr<Graphs> captured = Capture(pass);
    if (!captured.ok()) {
      GiveUp(captured.status());
      return pass(cancel, observer);
    }
    found->second = *std::move(captured);
  }
  Launch(found->second, observer);
}

bool PassGraphs::HasExpired() const {
  return std::any_of(kinds_.begin(), kinds_.end(), [this](const auto& kind) {
    const CudaGraph* const graph = kind.second.forward.get();
    return graph != nullptr && stream_.IsExpired(*graph);
  });
}

absl::StatusOr<PassGraphs::Graphs> PassGraphs::Capture(Pass pass) {
  Graphs graphs;
  for (const bool ends_bucket : ends_bucket_) {
    if (!ends_bucket) continue;
    ASSIGN_OR_RETURN(graphs.ready.emplace_back(), CudaEvent::Create());
  }
  RETURN_IF_ERROR(stream_.BeginCapture());
  Recorder recorder(stream_, ends_bucket_, graphs);
  pass(/*cancel=*/nullptr, recorder);
  RETURN_IF_ERROR(recorder.Finish());
  return graphs;
}

void PassGraphs::GiveUp(const absl::Status& why) {
  is_on_ = false;
  Forget();
  LogEvent(LogLevel::kWarning, "model.no_graphs",
           {{"message", absl::StrCat("passes are queued kernel by kernel: ",
                                     why.message())}});
}

void PassGraphs::Launch(const Graphs& graphs, GradientObserver& observer) {
  stream_.Launch(*graphs.forward);
  observer.OnForwardDone();
  stream_.Launch(*graphs.backward);
  size_t next_event = 0;
  for (size_t tensor = 0; tensor < ends_bucket_.size(); ++tensor) {
    // A tensor in the middle of a bucket is ready when the whole pass is, which
    // is late, but nobody asks.
    stream_.SetReady(ends_bucket_[tensor] ? graphs.ready[next_event++].get()
                                          : nullptr);
    observer.OnTensorDone(static_cast<int>(tensor));
  }
  stream_.SetReady(nullptr);
}

}  // namespace ringmaster::cuda
