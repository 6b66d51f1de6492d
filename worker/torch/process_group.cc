#include "worker/torch/process_group.h"

#include <pybind11/gil.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/clock/clock.h"
#include "common/config/port_range.h"
#include "common/machine/host_key.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"
#include "common/sync/mutex.h"
#include "worker/torch/rendezvous.h"
#include "worker/views/view_client.h"

namespace ringmaster {
namespace {

using Tensors = std::vector<at::Tensor>;

// Up to this size an operation is taken to be waited for at once.
constexpr int64_t kMaxSmallBytes = 64 << 10;

// A wait for another rank that is told of; and how often it is looked.
constexpr absl::Duration kPatience = absl::Seconds(30);
constexpr absl::Duration kWatchInterval = absl::Seconds(1);

// The end of a group waits for its operations as long as this. They may have
// been started in vain: this rank may end because of an error.
constexpr absl::Duration kLastOperations = absl::Seconds(10);

// For its worker to answer.
constexpr absl::Duration kViewsTimeout = absl::Seconds(5);

absl::Duration FromChrono(std::chrono::milliseconds duration) {
  return absl::FromChrono(duration);
}

std::runtime_error ErrorOf(const absl::Status& status) {
  return std::runtime_error("ringmaster: " + std::string(status.message()));
}

// The store that PyTorch gives.
class TorchStore final : public GroupStore {
 public:
  explicit TorchStore(c10d::Store& store) : store_(store) {}

  absl::Status Set(const std::string& key, const std::string& value) override {
    return Try([&] { store_.set(key, {value.begin(), value.end()}); });
  }

  absl::StatusOr<bool> Has(const std::string& key) override {
    bool has = false;
    RETURN_IF_ERROR(Try([&] { has = store_.check({key}); }));
    return has;
  }

  absl::StatusOr<std::string> Get(const std::string& key,
                                  absl::Duration limit) override {
    const absl::Status came =
        Try([&] { store_.wait({key}, absl::ToChronoMilliseconds(limit)); });
    // Stores throw the same for a timeout and for a lost connection.
    if (!came.ok()) return absl::DeadlineExceededError(came.message());
    std::vector<uint8_t> value;
    RETURN_IF_ERROR(Try([&] { value = store_.get(key); }));
    return std::string(value.begin(), value.end());
  }

 private:
  template <typename Call>
  absl::Status Try(const Call& call) {
    try {
      call();
      return absl::OkStatus();
    } catch (const std::exception& error) {
      return absl::UnavailableError(error.what());
    }
  }

  c10d::Store& store_;
};

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::optional<DType> WireFromEnvironment() {
  const std::string name = Variable("RINGMASTER_TORCH_WIRE");
  if (name.empty()) return std::nullopt;
  const absl::StatusOr<DType> wire = ParseDType(name);
  if (wire.ok() && (*wire == DType::kFloat16 || *wire == DType::kBFloat16)) {
    return *wire;
  }
  throw ErrorOf(absl::InvalidArgumentError(
      "RINGMASTER_TORCH_WIRE is neither float16 nor bfloat16"));
}

absl::Duration PatienceFromEnvironment() {
  const std::string text = Variable("RINGMASTER_TORCH_PATIENCE");
  absl::Duration patience = kPatience;
  if (text.empty() || (absl::ParseDuration(text, &patience) &&
                       patience > absl::ZeroDuration())) {
    return patience;
  }
  throw ErrorOf(absl::InvalidArgumentError(
      "RINGMASTER_TORCH_PATIENCE is no duration like 30s"));
}

void Tell(const std::string& line) {
  std::cerr << "ringmaster: " + line + "\n" << std::flush;
}

int NumberFromEnvironment(const char* name) {
  int number = -1;
  return absl::SimpleAtoi(Variable(name), &number) ? number : -1;
}
int JobRank() { return NumberFromEnvironment("RANK"); }
// A group of the default kind, of all ranks in their order.
bool IsOfWholeJob(int rank, int size) {
  return rank == JobRank() && size == NumberFromEnvironment("WORLD_SIZE");
}

bool StandInsAreAllowed() {
  static const bool are_allowed =
      Variable("RINGMASTER_TORCH_STAND_INS") == "yes";
  return are_allowed;
}

// Null: nobody gives any. It lives as long as the process; in a child that was
// forked its thread does not.
ViewClient* ViewsOfThisProcess() {
  static const pid_t process = getpid();
  static ViewClient* const views = []() -> ViewClient* {
    const std::string name = Variable(kViewsVariable);
    if (name.empty() || Variable("RINGMASTER_TORCH") == "restart")
      return nullptr;
    auto connected = ViewClient::Connect(name, kViewsTimeout, Clock::Real());
    if (connected.ok()) return connected->release();
    Tell("ranks cannot go on without each other: " +
         std::string(connected.status().message()));
    return nullptr;
  }();
  return getpid() == process ? views : nullptr;
}

RankGroupOptions OptionsOf(int rank, int size,
                           std::chrono::milliseconds timeout,
                           absl::Duration patience) {
  RankGroupOptions options;
  options.rank = rank;
  options.world_size = size;
  options.connect_timeout = FromChrono(timeout);
  options.note = {.after = patience, .show = Tell};
  options.host_key = ThisHostKey();
  options.clock = &Clock::Real();
  options.views = ViewsOfThisProcess();
  options.job_rank = JobRank();
  if (IsOfWholeJob(rank, size)) options.on_change = Tell;
  if (const std::string ports = Variable("RINGMASTER_DATA_PORTS");
      !ports.empty()) {
    const absl::StatusOr<PortRange> range = ParsePortRange(ports);
    if (!range.ok())
      throw ErrorOf(Annotate(range.status(), "RINGMASTER_DATA_PORTS"));
    options.port_range = *range;
  }
  const std::string store_host = Variable("MASTER_ADDR");
  // As gloo has it: a list, of which the first counts here.
  std::string interface_name = Variable("GLOO_SOCKET_IFNAME");
  interface_name = interface_name.substr(0, interface_name.find(','));
  options.is_local_only = store_host.empty() && interface_name.empty();
  if (!options.is_local_only) {
    const absl::StatusOr<std::string> address =
        AddressTowards(store_host, interface_name);
    if (!address.ok()) throw ErrorOf(address.status());
    options.address = *address;
  }
  return options;
}

std::optional<DType> DTypeOf(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return DType::kFloat32;
    case at::kDouble:
      return DType::kFloat64;
    case at::kHalf:
      return DType::kFloat16;
    case at::kBFloat16:
      return DType::kBFloat16;
    case at::kInt:
      return DType::kInt32;
    case at::kLong:
      return DType::kInt64;
    default:
      return std::nullopt;
  }
}

// Nullopt: not reduced as it travels.
std::optional<Reduction> ReductionOf(const c10d::ReduceOp& op) {
  switch (op) {
    case c10d::ReduceOp::SUM:
      return Reduction::kSum;
    case c10d::ReduceOp::AVG:
      return Reduction::kAverage;
    case c10d::ReduceOp::MIN:
      return Reduction::kMin;
    case c10d::ReduceOp::MAX:
      return Reduction::kMax;
    default:
      return std::nullopt;
  }
}

at::Tensor Combine(const at::Tensor& a, const at::Tensor& b,
                   const c10d::ReduceOp& op) {
  switch (op) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::AVG:
      return at::add(a, b);
    case c10d::ReduceOp::PRODUCT:
      return at::mul(a, b);
    case c10d::ReduceOp::MIN:
      return at::minimum(a, b);
    case c10d::ReduceOp::MAX:
      return at::maximum(a, b);
    case c10d::ReduceOp::BAND:
      return at::bitwise_and(a, b);
    case c10d::ReduceOp::BOR:
      return at::bitwise_or(a, b);
    case c10d::ReduceOp::BXOR:
      return at::bitwise_xor(a, b);
    default:
      break;
  }
  TORCH_CHECK(false, "this reduction is for GPUs");
}

void CheckDevice(const at::Tensor& tensor) {
  TORCH_CHECK(
      tensor.device().is_cpu(),
      "the back end ringmaster takes tensors in host memory, not on ",
      tensor.device(),
      "; with RINGMASTER_TORCH=as_is scripts get the back end that they "
      "ask for");
}

void CheckTensor(const at::Tensor& tensor) {
  CheckDevice(tensor);
  TORCH_CHECK(tensor.layout() == at::kStrided,
              "only all_reduce takes tensors of layout ", tensor.layout());
}

at::Tensor Single(const Tensors& tensors) {
  TORCH_CHECK(tensors.size() == 1, "one tensor a rank is expected, not ",
              tensors.size());
  CheckTensor(tensors[0]);
  return tensors[0];
}

int CheckedRoot(int64_t root, int size) {
  TORCH_CHECK(root >= 0 && root < size, "rank ", root,
              " is to be the root in a process group of ", size);
  return static_cast<int>(root);
}

void CheckReduction(const c10d::ReduceOp& op, const at::Tensor& tensor) {
  const bool is_real = tensor.is_floating_point() || tensor.is_complex();
  switch (op) {
    case c10d::ReduceOp::AVG:
      TORCH_CHECK(tensor.is_floating_point(),
                  "an average is of floating point numbers");
      break;
    case c10d::ReduceOp::BAND:
    case c10d::ReduceOp::BOR:
    case c10d::ReduceOp::BXOR:
      TORCH_CHECK(!is_real, "bit operations are of integers");
      break;
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::PRODUCT:
    case c10d::ReduceOp::MIN:
    case c10d::ReduceOp::MAX:
      break;
    default:
      TORCH_CHECK(false, "this reduction is for GPUs");
  }
}

void CheckLike(const Tensors& tensors, const at::Tensor& other, int count) {
  TORCH_CHECK(tensors.size() == static_cast<size_t>(count), "a list of ", count,
              " tensors, one for each rank, is expected, not of ",
              tensors.size());
  for (const at::Tensor& tensor : tensors) {
    CheckTensor(tensor);
    TORCH_CHECK(tensor.numel() == other.numel() &&
                    tensor.scalar_type() == other.scalar_type(),
                "the tensors of all ranks must have one size and dtype: ",
                tensor.sizes(), " of ", tensor.scalar_type(), " beside ",
                other.sizes(), " of ", other.scalar_type());
  }
}

std::span<std::byte> BytesOf(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

BufferView ByteBuffer(std::span<std::byte> bytes) {
  return {bytes.data(), static_cast<int64_t>(bytes.size()), DType::kUint8};
}

// Rows of one tensor after another.
at::Tensor RowsLike(const at::Tensor& tensor, int rows) {
  return at::empty({rows, tensor.numel()}, tensor.options());
}

void CopyFromRow(at::Tensor& tensor, const at::Tensor& rows, int row) {
  tensor.copy_(rows[row].view(tensor.sizes()));
}

void CopyToRow(at::Tensor& rows, int row, const at::Tensor& tensor) {
  rows[row].copy_(tensor.reshape({tensor.numel()}));
}

// A sparse tensor counts as a large one.
int64_t BytesOfAll(const Tensors& tensors) {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    bytes += tensor.layout() == at::kStrided
                 ? static_cast<int64_t>(tensor.nbytes())
                 : kMaxSmallBytes + 1;
  }
  return bytes;
}

// Parts of a tensor along its first dimension: equal, or as `splits` says.
RankGroup::Parts SplitRows(const at::Tensor& tensor,
                           const std::vector<int64_t>& splits, int size,
                           const char* what) {
  const int64_t length = tensor.dim() == 0 ? 0 : tensor.size(0);
  std::vector<int64_t> counts = splits;
  if (counts.empty()) {
    TORCH_CHECK(length % size == 0, "the ", what, " of alltoall has ", length,
                " rows, which ", size, " ranks cannot share equally");
    counts.assign(static_cast<size_t>(size), length / size);
  }
  int64_t sum = 0;
  for (const int64_t count : counts) sum += count;
  TORCH_CHECK(counts.size() == static_cast<size_t>(size) && sum == length,
              "the ", what, " splits of alltoall must be one for each of ",
              size, " ranks and add up to its ", length, " rows");
  const std::span<std::byte> bytes = BytesOf(tensor);
  const size_t row_bytes =
      length == 0 ? 0 : bytes.size() / static_cast<size_t>(length);
  RankGroup::Parts parts;
  size_t begin = 0;
  for (const int64_t count : counts) {
    const size_t part = static_cast<size_t>(count) * row_bytes;
    parts.emplace_back(bytes.subspan(begin, part));
    begin += part;
  }
  return parts;
}

absl::Status Guarded(const std::function<absl::Status()>& body) {
  try {
    at::NoGradGuard no_gradients;
    return body();
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  }
}

// True if the calling thread computes gradients in a backward pass. What its last
// callbacks start does not count, as those of DistributedDataParallel with
// static_graph do in its first pass: they wait for it, and nothing that the pass
// would do later can commit it.
bool IsInBackward() {
  using torch::autograd::GraphTask;
  const auto* info = torch::autograd::get_current_graph_task_exec_info();
  if (info == nullptr) return false;
    // PyTorch has no way to ask for the task itself.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
  const auto* task = reinterpret_cast<const GraphTask*>(
      reinterpret_cast<const std::byte*>(info) -
      offsetof(GraphTask, exec_info_));
#pragma GCC diagnostic pop
  return task->outstanding_tasks_ > 0;
}

// Work of the queue.
class QueuedWork final : public c10d::Work {
 public:
  QueuedWork(int rank, c10d::OpType op, const char* name, Tensors results,
             std::shared_ptr<OperationQueue> queue)
      // PyTorch's profiler shows the name.
      : Work(rank, op, ("ringmaster:" + std::string(name)).c_str()),
        results_(std::move(results)),
        queue_(std::move(queue)) {}

  // Once: the ticket of what ends with its commit, or who will set it.
  void SetTicket(OperationQueue::Ticket ticket) { ticket_ = ticket; }
  void SetCommit(std::function<void()> commit) { commit_ = std::move(commit); }

  void Finish(const absl::Status& status) {
    finish(status.ok() ? nullptr : std::make_exception_ptr(ErrorOf(status)));
  }

  // After Finish. Its callbacks may wait for other operations.
  void CompleteFuture() {
    c10::intrusive_ptr<c10::ivalue::Future> future;
    {
      std::unique_lock<std::mutex> lock(future_mutex_);
      is_over_ = true;
      future = future_;
    }
    if (future != nullptr) Complete(*future);
  }

  bool isCompleted() override {
    EnsureTicket();
    return Work::isCompleted();
  }

  bool wait(std::chrono::milliseconds timeout) override {
    const bool has_limit = timeout > std::chrono::milliseconds::zero();
    const MonotonicTime deadline =
        has_limit ? Clock::Real().Now() + FromChrono(timeout)
                  : MonotonicTime::InfiniteFuture();
    EnsureTicket();
    if (!queue_->Wait(ticket_, deadline)) {
      throw std::runtime_error("ringmaster: the operation is not over after " +
                               std::to_string(timeout.count()) + " ms");
    }
    const std::exception_ptr error = exception();
    if (error != nullptr) std::rethrow_exception(error);
    return true;
  }

  Tensors result() override { return results_; }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    std::unique_lock<std::mutex> lock(future_mutex_);
    if (future_ == nullptr) {
      future_ = c10::make_intrusive<c10::ivalue::Future>(
          c10::ListType::create(c10::TensorType::get()));
      if (is_over_) Complete(*future_);
    }
    return future_;
  }

 private:
  void EnsureTicket() {
    if (ticket_ == 0) commit_();
  }

  void Complete(c10::ivalue::Future& future) {
    if (const std::exception_ptr error = exception(); error != nullptr) {
      future.setError(error);
    } else {
      future.markCompleted(c10::IValue(results_));
    }
  }

  const Tensors results_;
  const std::shared_ptr<OperationQueue>
      queue_;  // outlives the group, if need be
  std::atomic<OperationQueue::Ticket> ticket_ = 0;
  std::function<void()> commit_;
  std::mutex future_mutex_;
  bool is_over_ = false;  // a future that is made from now on is complete
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// Work of a single message.
class MessageWork final : public c10d::Work {
 public:
  // `tensor` is what travels: `target`, or a packed copy of it.
  MessageWork(int rank, c10d::OpType op, std::shared_ptr<PointToPoint> messages,
              std::shared_ptr<Transfer> transfer, at::Tensor tensor,
              at::Tensor target, absl::Duration timeout)
      : Work(rank, op),
        messages_(std::move(messages)),
        transfer_(std::move(transfer)),
        tensor_(std::move(tensor)),
        target_(std::move(target)),
        deadline_(Clock::Real().Now() + timeout) {}

  bool isCompleted() override { return messages_->IsOver(*transfer_); }
  int sourceRank() const override { return messages_->SourceOf(*transfer_); }
  Tensors result() override { return {target_}; }

  bool wait(std::chrono::milliseconds timeout) override {
    const bool has_limit = timeout > std::chrono::milliseconds::zero();
    const absl::Status status = messages_->Wait(
        *transfer_,
        has_limit ? Clock::Real().Now() + FromChrono(timeout) : deadline_);
    if (!status.ok()) {
      const std::exception_ptr error = std::make_exception_ptr(ErrorOf(status));
      finish(error);
      std::rethrow_exception(error);
    }
    if (!target_.is_same(tensor_)) {
      at::NoGradGuard no_gradients;
      target_.copy_(tensor_);
    }
    finish();
    return true;
  }

 private:
  const std::shared_ptr<PointToPoint> messages_;
  const std::shared_ptr<Transfer> transfer_;
  const at::Tensor tensor_;
  at::Tensor target_;
  const MonotonicTime deadline_;
};

// A script may drop the work of a message that is under way, and the tensor.
PointToPoint::Owner OwnerOf(const at::Tensor& tensor) {
  return std::make_shared<const at::Tensor>(tensor);
}

MessageKey KeyOf(int tag) {
  return {MessageKey::Kind::kUser, static_cast<uint32_t>(tag)};
}

}  // namespace

// Copies of what operations overwrite, until these are committed. A program does
// the same again and again, so the memory of large ones is used again: fresh
// pages cost more than the copy. Thread-compatible.
class ProcessGroupRingmaster::KeptTensors {
 public:
  // Makes `copy` one of `tensor`; defined, it has been one before.
  void Copy(const at::Tensor& tensor, at::Tensor& copy) {
    if (!copy.defined()) copy = LikeOf(tensor);
    if (!IsReused(tensor)) {
      copy.copy_(tensor);
    } else {
      // Large ones go past the caches, unlike with PyTorch's.
      std::memcpy(copy.data_ptr(), tensor.data_ptr(), tensor.nbytes());
    }
  }

  // Ends the use of a copy.
  void Return(at::Tensor copy) {
    if (copy.defined() && IsReused(copy))
      spares_.push_back({std::move(copy), commits_});
  }

  void NoteCommit() {
    ++commits_;
    std::erase_if(spares_, [&](const Spare& spare) {
      return spare.returned + kMostCommits < commits_;
    });
  }

 private:
  // After so many commits nobody is taken to need the memory again.
  static constexpr int64_t kMostCommits = 32;

  struct Spare {
    at::Tensor tensor;
    int64_t returned = 0;  // commits by then
  };

  static bool IsReused(const at::Tensor& tensor) {
    return tensor.layout() == at::kStrided && tensor.is_contiguous() &&
           static_cast<int64_t>(tensor.nbytes()) > kMaxSmallBytes;
  }

  at::Tensor LikeOf(const at::Tensor& tensor) {
    if (!IsReused(tensor)) return at::empty_like(tensor);
    const auto spare =
        std::find_if(spares_.begin(), spares_.end(), [&](const Spare& other) {
          return other.tensor.sizes() == tensor.sizes() &&
                 other.tensor.scalar_type() == tensor.scalar_type();
        });
    if (spare == spares_.end()) return at::empty_like(tensor);
    at::Tensor copy = std::move(spare->tensor);
    spares_.erase(spare);
    return copy;
  }

  int64_t commits_ = 0;
  std::vector<Spare> spares_;
};

// The collectives that a backward pass has started and that are not committed:
// together they are a step's gradients. They are at its end, or when one of them
// is waited for. All ranks do so at the same place in the order of operations,
// as they run the same program. Thread-safe.
class ProcessGroupRingmaster::Backward
    : public std::enable_shared_from_this<Backward> {
 public:
  Backward(std::shared_ptr<OperationQueue> queue, OperationLog& log,
           KeptTensors& kept)
      : queue_(std::move(queue)), log_(log), kept_(kept) {}

  // Requires that the calling thread is in a backward pass.
  void Add(const c10::intrusive_ptr<QueuedWork>& work,
           std::function<void()> operation);
  void Commit();

 private:
  void CommitLocked() REQUIRES(mutex_);

  const std::shared_ptr<OperationQueue> queue_;
  OperationLog& log_;
  KeptTensors& kept_;
  Mutex mutex_;
  std::vector<c10::intrusive_ptr<QueuedWork>> works_ GUARDED_BY(mutex_);
  // Of the callback at the end of the pass: a pass that fails drops it. A pass
  // inside another (checkpointing that is reentrant) has one of its own, since
  // DistributedDataParallel may wait at its end.
  std::weak_ptr<void> end_ GUARDED_BY(mutex_);
  const void* task_ GUARDED_BY(mutex_) = nullptr;  // the pass that has it
};

void ProcessGroupRingmaster::Backward::Add(
    const c10::intrusive_ptr<QueuedWork>& work,
    std::function<void()> operation) {
  MutexLock lock(mutex_);
  const void* const task = torch::autograd::get_current_graph_task_exec_info();
  if (end_.expired()) CommitLocked();  // what a pass that failed has left
  work->SetCommit([weak = weak_from_this()] {
    if (const auto self = weak.lock(); self != nullptr) self->Commit();
  });
  works_.push_back(work);
  queue_->Add(
      std::move(operation), [] {}, /*is_small=*/false);
  if (!end_.expired() && task == task_) return;
  const auto end = std::make_shared<int>();
  end_ = end;
  task_ = task;
  // Before that of DistributedDataParallel, which waits for all of them.
  torch::autograd::Engine::get_default_engine().queue_callback(
      [self = shared_from_this(), end] { self->Commit(); });
}

void ProcessGroupRingmaster::Backward::Commit() {
  MutexLock lock(mutex_);
  CommitLocked();
}

void ProcessGroupRingmaster::Backward::CommitLocked() {
  if (works_.empty()) return;
  const auto works =
      std::make_shared<std::vector<c10::intrusive_ptr<QueuedWork>>>(
          std::exchange(works_, {}));
  const OperationQueue::Ticket ticket = queue_->Add(
      [this, self = shared_from_this()] {
        log_.Commit();
        kept_.NoteCommit();
      },
      [works] {
        for (const auto& work : *works) work->CompleteFuture();
        works->clear();
      },
      /*is_small=*/false);
  for (const auto& work : *works) work->SetTicket(ticket);
}

thread_local bool ProcessGroupRingmaster::roots_have_stand_ins = false;

ProcessGroupRingmaster::ProcessGroupRingmaster(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
    std::chrono::milliseconds timeout)
    : ProcessGroup(rank, size),
      process_(getpid()),
      timeout_(timeout),
      wire_(WireFromEnvironment()),
      watch_(rank, PatienceFromEnvironment()) {
  TORCH_CHECK(size >= 1 && rank >= 0 && rank < size, "rank ", rank,
              " in a process group of ", size);
  TorchStore group_store(*store);
  const RankGroupOptions options =
      OptionsOf(rank, size, timeout, PatienceFromEnvironment());
  // A later group of this process fails in the store, as those of others do.
  static std::atomic<bool> has_group{false};
  is_joining_ = !Variable(kGroupVariable).empty() && !has_group.exchange(true);
  absl::StatusOr<std::unique_ptr<RankGroup>> group =
      is_joining_ ? RankGroup::Join(Variable(kGroupVariable), options)
                  : RankGroup::Connect(group_store, options);
  if (absl::IsUnimplemented(group.status()))
    throw OthersDecline(std::string(group.status().message()));
  if (!group.ok()) throw ErrorOf(group.status());
  group_ = *std::move(group);
  watcher_ =
      std::make_unique<PeriodicThread>(Clock::Real(), kWatchInterval, [this] {
        const std::string line = watch_.Look(
            group_->activity(running_.load(),
                             static_cast<int64_t>(running_number_.load())),
            Clock::Real().Now());
        if (!line.empty()) Tell(line);
      });
  log_ = std::make_unique<OperationLog>(*group_, FromChrono(timeout));
  queue_ = std::make_shared<OperationQueue>(Clock::Real());
  kept_ = std::make_unique<KeptTensors>();
  backward_ = std::make_shared<Backward>(queue_, *log_, *kept_);
  // No operation runs once the queue has stopped, which is before the log ends.
  group_->SetOutdatedCallback([queue = queue_, log = log_.get()] {
    queue->Add([log] { log->CatchUp(); }, [] {}, /*is_small=*/false);
  });
  init();
}

ProcessGroupRingmaster::~ProcessGroupRingmaster() {
  if (getpid() != process_) {
    (void)group_.release();
    (void)watcher_.release();
    (void)log_.release();
    (void)kept_.release();
    new std::shared_ptr<OperationQueue>(std::move(queue_));
    new std::shared_ptr<Backward>(std::move(backward_));
    return;
  }
  // What is queued may have to take the interpreter's lock, to free a tensor.
  std::optional<pybind11::gil_scoped_release> unlocked;
  if (PyGILState_Check() != 0) unlocked.emplace();
  backward_->Commit();
  // Others may need this rank's part of what is under way.
  (void)queue_->WaitForAll(Clock::Real().Now() + kLastOperations);
  group_->Abort("the process group was destroyed");
  queue_->Stop();
  watcher_.reset();
  group_.reset();
  log_.reset();
}

void ProcessGroupRingmaster::TellMet() {
  // The worker's command is one of the whole job.
  if (has_told_.exchange(true) || !IsOfWholeJob(rank_, size_)) return;
  ViewClient* const views = ViewsOfThisProcess();
  if (views == nullptr) return;
  if (group_->follows_views()) {
    views->TellCanGoOn(rank_, size_);
  } else {
    views->TellHasMet();
  }
}

void ProcessGroupRingmaster::RunInOrder(
    const std::function<absl::Status()>& body) {
  absl::Status end;
  backward_->Commit();
  const OperationQueue::Ticket ticket =
      queue_->Add([&] { end = body(); }, [] {}, /*is_small=*/true);
  (void)queue_->Wait(ticket, MonotonicTime::InfiniteFuture());
  if (!end.ok()) throw ErrorOf(end);
}

void ProcessGroupRingmaster::Join() {
  TORCH_CHECK(is_joining_, "it has joined");
  TellMet();
  RunInOrder([this] {
    running_ = "attach";
    ViewsOfThisProcess()->TellJoins(group_->MemberText());
    return log_->Join();
  });
  is_joining_ = false;
}

bool ProcessGroupRingmaster::TakeNewcomers() {
  // Where there are no messages, the text would be too long for a packet, too.
  if (!group_->follows_views() || !IsOfWholeJob(rank_, size_) ||
      size_ > RankGroup::kMaxRanksWithMessages) {
    return false;
  }
  RunInOrder([this] {
    ViewsOfThisProcess()->TellTakesNewcomers(group_->GroupText());
    return absl::OkStatus();
  });
  return true;
}

bool ProcessGroupRingmaster::Admit() {
  bool are_admitted = false;
  RunInOrder([&]() -> absl::Status {
    ASSIGN_OR_RETURN(are_admitted, log_->Admit());
    return absl::OkStatus();
  });
  return are_admitted;
}

std::vector<int> ProcessGroupRingmaster::Contributors() {
  std::vector<int> ranks;
  RunInOrder([&] {
    ranks = log_->TakeContributors();
    return absl::OkStatus();
  });
  return ranks;
}

int ProcessGroupRingmaster::LowestSettled() {
  int rank = -1;
  RunInOrder([&] {
    rank = group_->LowestSettled();
    return absl::OkStatus();
  });
  return rank;
}

void ProcessGroupRingmaster::Settle() {
  RunInOrder([this] {
    group_->Settle(group_->admitted());
    return absl::OkStatus();
  });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupRingmaster::BroadcastSettled(
    at::Tensor tensor) {
  CheckTensor(tensor);
  return Start(c10d::OpType::BROADCAST, "broadcast",
               {.results = {tensor}, .overwritten = {tensor}},
               std::chrono::milliseconds::zero(),
               [this, tensor](const Call& call) mutable -> absl::Status {
                 const int root = group_->LowestSettled();
                 if (root < 0) {
                   return absl::DataLossError(
                       "all ranks that have the program's state are lost");
                 }
                 return BroadcastFrom(root, tensor, call);
               });
}

void ProcessGroupRingmaster::Answer(const Tensors& answers) {
  answers_.assign(answers.begin(), answers.end());
}

std::shared_ptr<PointToPoint> ProcessGroupRingmaster::Messages() const {
  absl::StatusOr<std::shared_ptr<PointToPoint>> messages = group_->Messages();
  if (!messages.ok()) throw ErrorOf(messages.status());
  return *std::move(messages);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupRingmaster::Start(
    c10d::OpType op, const char* name, Effect effect,
    std::chrono::milliseconds timeout, Body body) {
  const uint64_t number = ++started_;
  TellMet();
  const bool is_alone = is_joining_ || (effect.alone && !answers_.empty() &&
                                        roots_have_stand_ins);
  TORCH_CHECK(
      !is_alone || effect.alone, name,
      " of a process that takes the place of a lost rank, before it has "
      "called ringmaster_torch.attach: nobody else takes part");
  const bool is_small = BytesOfAll(effect.results) <= kMaxSmallBytes;
  const Call call = {
      .timeout = FromChrono(
          timeout > std::chrono::milliseconds::zero() ? timeout : timeout_),
      .is_of_gradients = group_->follows_views() && IsInBackward()};
  auto work = c10::make_intrusive<QueuedWork>(
      rank_, op, name, std::move(effect.results), queue_);
  if (is_alone) {
    work->SetTicket(queue_->Add(
        [work, alone = std::move(effect.alone)] {
          work->Finish(Guarded([&] {
            alone();
            return absl::OkStatus();
          }));
        },
        [work] { work->CompleteFuture(); }, is_small));
    return work;
  }
  KeptTensors* const kept = kept_.get();
  const auto copies = std::make_shared<Tensors>();
  const auto overwritten =
      std::make_shared<Tensors>(std::move(effect.overwritten));
  OperationLog::Operation operation = {
      .run = [this, body = std::move(body), name, number, call,
              needs_all = effect.needs_all,
              needs_rank = effect.needs_rank]() -> absl::Status {
        running_ = name;
        running_number_ = number;
        if (needs_all ||
            (needs_rank >= 0 && group_->MemberIndex(needs_rank) < 0)) {
          RETURN_IF_ERROR(group_->CheckNobodyLost(name));
        }
        return Guarded([&] { return body(call); });
      },
      .keep =
          [kept, copies, overwritten] {
            return Guarded([&] {
              copies->resize(overwritten->size());
              for (size_t i = 0; i < copies->size(); ++i)
                kept->Copy((*overwritten)[i], (*copies)[i]);
              return absl::OkStatus();
            });
          },
      .restore =
          [copies, overwritten] {
            return Guarded([&] {
              for (size_t i = 0; i < copies->size(); ++i)
                (*overwritten)[i].copy_((*copies)[i]);
              return absl::OkStatus();
            });
          },
      .finish =
          [work, kept, copies](const absl::Status& status) {
            for (at::Tensor& copy : *copies) kept->Return(std::move(copy));
            work->Finish(status);
          },
      .is_of_gradients = call.is_of_gradients};
  const auto log = log_.get();
  if (call.is_of_gradients) {
    backward_->Add(work, [log, operation = std::move(operation)]() mutable {
      log->Run(std::move(operation));
    });
    return work;
  }
  backward_->Commit();
  work->SetTicket(queue_->Add(
      [log, kept, operation = std::move(operation)]() mutable {
        log->Run(std::move(operation));
        log->Commit();
        kept->NoteCommit();
      },
      [work] { work->CompleteFuture(); }, is_small));
  return work;
}

absl::Status ProcessGroupRingmaster::AllGatherRows(at::Tensor& all,
                                                   const Call& call) {
  return group_->RunCollective(AllGather(ByteBuffer(BytesOf(all))),
                               call.timeout);
}

absl::Status ProcessGroupRingmaster::BroadcastFrom(int root, at::Tensor& tensor,
                                                   const Call& call) {
  at::Tensor packed = tensor.contiguous();
  RETURN_IF_ERROR(
      group_->RunCollective(Broadcast(ByteBuffer(BytesOf(packed)),
                                      std::max(group_->MemberIndex(root), 0)),
                            call.timeout));
  if (!packed.is_same(tensor)) tensor.copy_(packed);
  return absl::OkStatus();
}

absl::Status ProcessGroupRingmaster::AllGatherInto(Tensors& tensors,
                                                   const at::Tensor& input,
                                                   const Call& call) {
  if (static_cast<int64_t>(input.nbytes()) <= kMaxSmallBytes) {
    at::Tensor all = RowsLike(input, size_);
    CopyToRow(all, rank_, input);
    RETURN_IF_ERROR(AllGatherRows(all, call));
    for (int row = 0; row < size_; ++row)
      CopyFromRow(tensors[static_cast<size_t>(row)], all, row);
    return absl::OkStatus();
  }
  // Large ones go straight into place: one buffer for all would be written and
  // read once more, and its pages are fresh each time.
  tensors[static_cast<size_t>(rank_)].copy_(input);
  for (int root = 0; root < size_; ++root) {
    RETURN_IF_ERROR(
        BroadcastFrom(root, tensors[static_cast<size_t>(root)], call));
  }
  return absl::OkStatus();
}

absl::Status ProcessGroupRingmaster::AllReduce(at::Tensor& tensor,
                                               c10d::ReduceOp op,
                                               const Call& call) {
  if (!tensor.is_contiguous()) {
    at::Tensor packed = tensor.contiguous();
    RETURN_IF_ERROR(AllReduce(packed, op, call));
    tensor.copy_(packed);
    return absl::OkStatus();
  }
  const std::optional<DType> dtype = DTypeOf(tensor);
  const std::optional<Reduction> reduction = ReductionOf(op);
  if (dtype.has_value() && reduction.has_value()) {
    CollectiveRequest request =
        AllReduceSum({tensor.data_ptr(), tensor.numel(), *dtype});
    request.reduction = *reduction;
    const bool is_sum =
        *reduction == Reduction::kSum || *reduction == Reduction::kAverage;
    if (is_sum && *dtype == DType::kFloat32 &&
        static_cast<int64_t>(tensor.nbytes()) > kMaxSmallBytes) {
      request.wire = wire_;
    }
    RETURN_IF_ERROR(group_->RunCollective(request, call.timeout));
    BringToMean(tensor, op, call);
    return absl::OkStatus();
  }
  at::Tensor all = RowsLike(tensor, member_count());
  CopyToRow(all, member_index(), tensor);
  RETURN_IF_ERROR(AllGatherRows(all, call));
  at::Tensor combined = all[0];
  for (int row = 1; row < member_count(); ++row)
    combined = Combine(combined, all[row], op);
  tensor.copy_(combined.view(tensor.sizes()));
  BringToMean(tensor, op, call);
  return absl::OkStatus();
}

absl::Status ProcessGroupRingmaster::AllReduceSparse(at::Tensor& tensor,
                                                     const Call& call) {
  const at::Tensor own = tensor.coalesce();
  const at::Tensor indices = own.indices();  // dimensions x count
  const at::Tensor values = own.values();    // count x ...
  at::Tensor counts = at::empty({member_count(), 1}, indices.options());
  counts[member_index()].fill_(values.size(0));
  RETURN_IF_ERROR(AllGatherRows(counts, call));
  const auto most = counts.max().item<int64_t>();
  // The parts of all members are padded to the largest. Indices are transposed, so
  // that both have a row for each value.
  const auto gather =
      [&](const at::Tensor& rows) -> absl::StatusOr<at::Tensor> {
    std::vector<int64_t> shape = rows.sizes().vec();
    shape[0] = most;
    shape.insert(shape.begin(), member_count());
    at::Tensor all = at::zeros(shape, rows.options());
    all[member_index()].narrow(0, 0, rows.size(0)).copy_(rows);
    RETURN_IF_ERROR(AllGatherRows(all, call));
    Tensors parts;
    for (int row = 0; row < member_count(); ++row) {
      parts.push_back(all[row].narrow(0, 0, counts[row].item<int64_t>()));
    }
    return at::cat(parts);
  };
  ASSIGN_OR_RETURN(const at::Tensor all_indices, gather(indices.t()));
  ASSIGN_OR_RETURN(const at::Tensor all_values, gather(values));
  tensor.copy_(at::sparse_coo_tensor(all_indices.t(), all_values,
                                     tensor.sizes(), tensor.options())
                   .coalesce());
  BringToMean(tensor, c10d::ReduceOp::SUM, call);
  return absl::OkStatus();
}

absl::Status ProcessGroupRingmaster::ReduceScatterRows(at::Tensor& rows,
                                                       at::Tensor& output,
                                                       c10d::ReduceOp op,
                                                       const Call& call) {
  const std::optional<DType> dtype = DTypeOf(rows);
  const std::optional<Reduction> reduction = ReductionOf(op);
  // Its chunks are those of members.
  if (dtype.has_value() && reduction.has_value() &&
      !group_->has_lost_members()) {
    CollectiveRequest request =
        ReduceScatterSum({rows.data_ptr(), rows.numel(), *dtype});
    request.reduction = *reduction;
    RETURN_IF_ERROR(group_->RunCollective(request, call.timeout));
  } else {
    RETURN_IF_ERROR(AllReduce(rows, op, call));
  }
  CopyFromRow(output, rows, rank_);
  return absl::OkStatus();
}

void ProcessGroupRingmaster::BringToMean(at::Tensor& sum, c10d::ReduceOp op,
                                         const Call& call) const {
  if (!call.is_of_gradients || op != c10d::ReduceOp::SUM ||
      !group_->has_lost_members() || !sum.is_floating_point()) {
    return;
  }
  sum.mul_(static_cast<double>(size_) / member_count());
}

c10::intrusive_ptr<c10d::Work> ProcessGroupRingmaster::broadcast(
    Tensors& tensors, const c10d::BroadcastOptions& options) {
  at::Tensor tensor = Single(tensors);
  const int root = CheckedRoot(options.rootRank, size_);
  const bool has_stand_in = roots_have_stand_ins || StandInsAreAllowed();
  return Start(c10d::OpType::BROADCAST, "broadcast",
               {.results = {tensor},
                .overwritten = {tensor},
                .needs_rank = has_stand_in ? -1 : root,
                .alone =
                    [this, tensor] {
                      if (answers_.empty()) return;
                      tensor.copy_(answers_.front());
                      answers_.pop_front();
                    }},
               options.timeout, [this, tensor, root](const Call& call) mutable {
                 return BroadcastFrom(root, tensor, call);
               });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupRingmaster::allreduce(
    Tensors& tensors, const c10d::AllreduceOptions& options) {
  if (tensors.size() == 1 && tensors[0].layout() == at::kSparse) {
    CheckDevice(tensors[0]);
    TORCH_CHECK(options.reduceOp == c10d::ReduceOp::SUM,
                "sparse tensors can only be summed");
    return Start(c10d::OpType::ALLREDUCE, "all_reduce_sparse",
                 {.results = {tensors[0]}, .overwritten = {tensors[0]}},
                 options.timeout,
                 [this, tensor = tensors[0]](const Call& call) mutable {
                   return AllReduceSparse(tensor, call);
                 });
  }
  at::Tensor tensor = Single(tensors);
  CheckReduction(options.reduceOp, tensor);
  return Start(c10d::OpType::ALLREDUCE, "all_reduce",
               {.results = {tensor}, .overwritten = {tensor}, .alone = [] {}},
               options.timeout,
               [this, tensor, op = options.reduceOp](const Call& call) mutable {
                 return AllReduce(tensor, op, call);
               });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupRingmaster::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  TORCH_CHECK(!tensors.empty(), "all_reduce_coalesced of no tensors");
  for (const at::Tensor& tensor : tensors) {
    CheckTensor(tensor);
    TORCH_CHECK(tensor.scalar_type() == tensors[0].scalar_type(),
                "the tensors of all_reduce_coalesced must have one dtype");
  }
  CheckReduction(options.reduceOp, tensors[0]);
  return Start(
      c10d::OpType::ALLREDUCE_COALESCED, "all_reduce_coalesced",
      {.results = tensors, .overwritten = tensors}, options.timeout,
      [this, tensors, op = options.reduceOp](const Call& call) mutable {
        Tensors flat;
        for (const at::Tensor& tensor : tensors)
          flat.push_back(tensor.reshape({tensor.numel()}));
        at::Tensor all = at::cat(flat);
        RETURN_IF_ERROR(AllReduce(all, op, call));
        int64_t begin = 0;
        for (at::Tensor& tensor : tensors) {
          tensor.copy_(
              all.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
          begin += tensor.numel();
        }
        return absl::OkStatus();
      });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupRingmaster::reduce(
    Tensors& tensors, const c10d::ReduceOptions& options) {
  at::Tensor tensor = Single(tensors);
  CheckReduction(options.reduceOp, tensor);
  const bool is_root = CheckedRoot(options.rootRank, size_) == rank_;
  return Start(
      c10d::OpType::REDUCE, "reduce",
      {.results = {tensor}, .overwritten = {tensor}}, options.timeout,
      [this, tensor, is_root, op = options.reduceOp](const Call& call) mutable {
        // The others keep what they have.
        at::Tensor into = is_root ? tensor : tensor.clone();
        return AllReduce(into, op, call);
      });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupRingmaster::allgather(
    std::vector<Tensors>& outputs, Tensors& inputs,
    const c10d::AllgatherOptions& options) {
  const at::Tensor input = Single(inputs);
  TORCH_CHECK(outputs.size() == 1, "one list of tensors is expected, not ",
              outputs.size());
  CheckLike(outputs[0], input, size_);
  return Start(c10d::OpType::ALLGATHER, "all_gather",
               {.results = outputs[0],
                .needs_all = true,
                .alone =
                    [tensors = outputs[0], input] {
                      for (const at::Tensor& tensor : tensors)
                        tensor.copy_(input);
                    }},
               options.timeout,
               [this, tensors = outputs[0], input](const Call& call) mutable {
                 return AllGatherInto(tensors, input, call);
               });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupRingmaster::_allgather_base(
    at::Tensor& output, at::Tensor& input,
    const c10d::AllgatherOptions& options) {
  CheckTensor(output);
  CheckTensor(input);
  TORCH_CHECK(output.scalar_type() == input.scalar_type() &&
                  output.numel() == input.numel() * size_,
              "the output of all_gather must be ", size_,
              " times as large as its input, and of its dtype");
  return Start(c10d::OpType::_ALLGATHER_BASE, "all_gather_base",
               {.results = {output}, .needs_all = true}, options.timeout,
               [this, output, input](const Call& call) mutable {
                 at::Tensor all = output.is_contiguous()
                                      ? output.view({size_, input.numel()})
                                      : RowsLike(input, size_);
                 CopyToRow(all, rank_, input);
                 RETURN_IF_ERROR(AllGatherRows(all, call));
                 if (!output.is_contiguous())
                   output.copy_(all.view(output.sizes()));
                 return absl::OkStatus();
               });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupRingmaster::allgather_coalesced(
    std::vector<Tensors>& outputs, Tensors& inputs,
    const c10d::AllgatherOptions& options) {
  TORCH_CHECK(outputs.size() == static_cast<size_t>(size_),
              "one list of tensors for each of ", size_,
              " ranks is expected, not ", outputs.size());
  Tensors results;
  for (const Tensors& of_rank : outputs) {
    TORCH_CHECK(of_rank.size() == inputs.size(),
                "each rank's list must have as many tensors as the input");
    for (size_t i = 0; i < inputs.size(); ++i) {
      CheckTensor(inputs[i]);
      CheckLike({of_rank[i]}, inputs[i], 1);
    }
    results.insert(results.end(), of_rank.begin(), of_rank.end());
  }
  return Start(c10d::OpType::ALLGATHER_COALESCED, "all_gather_coalesced",
               {.results = results, .needs_all = true}, options.timeout,
               [this, outputs, inputs](const Call& call) mutable {
                 for (size_t i = 0; i < inputs.size(); ++i) {
                   Tensors of_input;
                   for (const Tensors& of_rank : outputs)
                     of_input.push_back(of_rank[i]);
                   RETURN_IF_ERROR(AllGatherInto(of_input, inputs[i], call));
                 }
                 return absl::OkStatus();
               });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupRingmaster::gather(
    std::vector<Tensors>& outputs, Tensors& inputs,
    const c10d::GatherOptions& options) {
  Messages();
  const at::Tensor input = Single(inputs);
  const int root = CheckedRoot(options.rootRank, size_);
  Tensors tensors;
  if (rank_ == root) {
    TORCH_CHECK(outputs.size() == 1, "one list of tensors is expected, not ",
                outputs.size());
    tensors = outputs[0];
    CheckLike(tensors, input, size_);
  } else {
    TORCH_CHECK(outputs.empty(), "only the root of gather has outputs");
  }
  return Start(c10d::OpType::GATHER, "gather",
               {.results = tensors, .needs_all = true}, options.timeout,
               [this, tensors, input, root](const Call& call) mutable {
                 const at::Tensor packed = input.contiguous();
                 RankGroup::Parts to(static_cast<size_t>(size_));
                 RankGroup::Parts from(static_cast<size_t>(size_));
                 to[static_cast<size_t>(root)] = BytesOf(packed);
                 at::Tensor all;
                 if (rank_ == root) {
                   all = RowsLike(input, size_);
                   for (int row = 0; row < size_; ++row)
                     from[static_cast<size_t>(row)] = BytesOf(all[row]);
                 }
                 RETURN_IF_ERROR(group_->Exchange(to, from, call.timeout));
                 for (size_t row = 0; row < tensors.size(); ++row)
                   CopyFromRow(tensors[row], all, static_cast<int>(row));
                 return absl::OkStatus();
               });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupRingmaster::scatter(
    Tensors& outputs, std::vector<Tensors>& inputs,
    const c10d::ScatterOptions& options) {
  Messages();
  at::Tensor output = Single(outputs);
  const int root = CheckedRoot(options.rootRank, size_);
  Tensors tensors;
  if (rank_ == root) {
    TORCH_CHECK(inputs.size() == 1, "one list of tensors is expected, not ",
                inputs.size());
    tensors = inputs[0];
    CheckLike(tensors, output, size_);
  } else {
    TORCH_CHECK(inputs.empty(), "only the root of scatter has inputs");
  }
  return Start(c10d::OpType::SCATTER, "scatter",
               {.results = {output}, .needs_all = true}, options.timeout,
               [this, tensors, output, root](const Call& call) mutable {
                 RankGroup::Parts to(static_cast<size_t>(size_));
                 RankGroup::Parts from(static_cast<size_t>(size_));
                 Tensors packed;
                 for (size_t row = 0; row < tensors.size(); ++row) {
                   packed.push_back(tensors[row].contiguous());
                   to[row] = BytesOf(packed.back());
                 }
                 at::Tensor into =
                     output.is_contiguous()
                         ? output
                         : at::empty_like(output, at::MemoryFormat::Contiguous);
                 from[static_cast<size_t>(root)] = BytesOf(into);
                 RETURN_IF_ERROR(group_->Exchange(to, from, call.timeout));
                 if (!into.is_same(output)) output.copy_(into);
                 return absl::OkStatus();
               });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupRingmaster::reduce_scatter(
    Tensors& outputs, std::vector<Tensors>& inputs,
    const c10d::ReduceScatterOptions& options) {
  at::Tensor output = Single(outputs);
  TORCH_CHECK(inputs.size() == 1, "one list of tensors is expected, not ",
              inputs.size());
  CheckLike(inputs[0], output, size_);
  CheckReduction(options.reduceOp, output);
  return Start(c10d::OpType::REDUCE_SCATTER, "reduce_scatter",
               {.results = {output}, .overwritten = {output}}, options.timeout,
               [this, tensors = inputs[0], output,
                op = options.reduceOp](const Call& call) mutable {
                 at::Tensor rows = RowsLike(output, size_);
                 for (int row = 0; row < size_; ++row)
                   CopyToRow(rows, row, tensors[static_cast<size_t>(row)]);
                 return ReduceScatterRows(rows, output, op, call);
               });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupRingmaster::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input,
    const c10d::ReduceScatterOptions& options) {
  CheckTensor(output);
  CheckTensor(input);
  TORCH_CHECK(output.scalar_type() == input.scalar_type() &&
                  input.numel() == output.numel() * size_,
              "the input of reduce_scatter must be ", size_,
              " times as large as its output, and of its dtype");
  CheckReduction(options.reduceOp, output);
  return Start(
      c10d::OpType::_REDUCE_SCATTER_BASE, "reduce_scatter_base",
      {.results = {output}, .overwritten = {output}}, options.timeout,
      [this, output, input, op = options.reduceOp](const Call& call) mutable {
        at::Tensor rows = RowsLike(output, size_);
        rows.copy_(input.reshape({size_, output.numel()}));
        return ReduceScatterRows(rows, output, op, call);
      });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupRingmaster::alltoall_base(
    at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
    std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) {
  Messages();
  CheckTensor(output);
  CheckTensor(input);
  TORCH_CHECK(output.is_contiguous() && input.is_contiguous(),
              "all_to_all_single takes contiguous tensors");
  TORCH_CHECK(output.scalar_type() == input.scalar_type(),
              "input and output of all_to_all must have one dtype");
  RankGroup::Parts to = SplitRows(input, input_splits, size_, "input");
  RankGroup::Parts from = SplitRows(output, output_splits, size_, "output");
  return Start(c10d::OpType::ALLTOALL_BASE, "all_to_all",
               {.results = {output}, .needs_all = true}, options.timeout,
               [this, output, input, to, from](const Call& call) {
                 return group_->Exchange(to, from, call.timeout);
               });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupRingmaster::alltoall(
    Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  Messages();
  const auto size = static_cast<size_t>(size_);
  TORCH_CHECK(outputs.size() == size && inputs.size() == size,
              "all_to_all takes lists of ", size,
              " tensors, one for each rank");
  for (size_t i = 0; i < size; ++i) {
    CheckTensor(outputs[i]);
    CheckTensor(inputs[i]);
    TORCH_CHECK(outputs[i].is_contiguous(),
                "the outputs of all_to_all must be contiguous");
  }
  return Start(c10d::OpType::ALLTOALL, "all_to_all",
               {.results = outputs, .needs_all = true}, options.timeout,
               [this, outputs, inputs, size](const Call& call) {
                 RankGroup::Parts to(size);
                 RankGroup::Parts from(size);
                 Tensors packed;
                 for (size_t i = 0; i < size; ++i) {
                   packed.push_back(inputs[i].contiguous());
                   to[i] = BytesOf(packed.back());
                   from[i] = BytesOf(outputs[i]);
                 }
                 return group_->Exchange(to, from, call.timeout);
               });
}

c10::intrusive_ptr<c10d::Work> ProcessGroupRingmaster::barrier(
    const c10d::BarrierOptions& options) {
  return Start(c10d::OpType::BARRIER, "barrier",
               {.results = {}, .alone = [] {}}, options.timeout,
               [this](const Call& call) {
                 return group_->RunCollective(Barrier(), call.timeout);
               });
}

void ProcessGroupRingmaster::monitoredBarrier(
    const c10d::BarrierOptions& options, bool waits_for_all) {
  Messages();
  Start(c10d::OpType::BARRIER, "monitored_barrier",
        {.results = {}, .needs_all = true}, options.timeout,
        [this, waits_for_all](const Call& call) {
          return group_->MonitoredBarrier(call.timeout, waits_for_all);
        })
      ->wait();
}

c10::intrusive_ptr<c10d::Work> ProcessGroupRingmaster::send(Tensors& tensors,
                                                            int to, int tag) {
  const at::Tensor tensor = Single(tensors);
  const at::Tensor packed = tensor.contiguous();
  const std::shared_ptr<PointToPoint> messages = Messages();
  // A copy needs no copying back.
  return c10::make_intrusive<MessageWork>(
      rank_, c10d::OpType::SEND, messages,
      messages->Send(to, KeyOf(tag), BytesOf(packed), OwnerOf(packed)), packed,
      packed, FromChrono(timeout_));
}

c10::intrusive_ptr<c10d::Work> ProcessGroupRingmaster::recv(Tensors& tensors,
                                                            int from, int tag) {
  const at::Tensor tensor = Single(tensors);
  const at::Tensor packed =
      tensor.is_contiguous()
          ? tensor
          : at::empty_like(tensor, at::MemoryFormat::Contiguous);
  const std::shared_ptr<PointToPoint> messages = Messages();
  const bool is_any = from == PointToPoint::kAnyRank;
  return c10::make_intrusive<MessageWork>(
      rank_, is_any ? c10d::OpType::RECVANYSOURCE : c10d::OpType::RECV,
      messages,
      messages->Receive(from, KeyOf(tag), BytesOf(packed), OwnerOf(packed)),
      packed, tensor, FromChrono(timeout_));
}

c10::intrusive_ptr<c10d::Work> ProcessGroupRingmaster::recvAnysource(
    Tensors& tensors, int tag) {
  return recv(tensors, PointToPoint::kAnyRank, tag);
}

}  // namespace ringmaster
