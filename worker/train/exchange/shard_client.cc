#include "worker/train/exchange/shard_client.h"

#include <pthread.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/optimizer/norm.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "worker/train/exchange/shard_description.h"

namespace ringmaster {
namespace {

constexpr size_t kParts = 3;

const std::byte* BytesOf(const float* elems) {
  return reinterpret_cast<const std::byte*>(elems);
}

// Each shard's primary, on the shard's lane.
std::vector<int> PeersOfShards(const std::vector<ShardPlacement>& placements,
                               const std::vector<MessagePeer>& hosts) {
  int lanes = 1;
  for (const MessagePeer& host : hosts) lanes = std::max(lanes, host.lane + 1);
  const auto shards = static_cast<int>(placements.size());
  std::vector<int> peers;
  for (int shard = 0; shard < shards; ++shard) {
    const int rank = placements[static_cast<size_t>(shard)].primary_rank;
    const int lane = LaneOfShard(shard, shards, lanes);
    const auto peer =
        std::find_if(hosts.begin(), hosts.end(), [&](const MessagePeer& host) {
          return host.rank == rank && host.lane == lane;
        });
    RM_CHECK(peer != hosts.end(), "a worker is connected with every holder");
    peers.push_back(static_cast<int>(peer - hosts.begin()));
  }
  return peers;
}

}  // namespace

ShardClient::ShardClient(const Options& options, std::vector<MessagePeer> hosts)
    : options_(options),
      peer_of_shard_(PeersOfShards(options.placements.shards, hosts)),
      loop_(options.loop, std::move(hosts), options.cancel, options.clock),
      awaited_(options.plan.buckets().size() * kParts),
      outstanding_of_peer_(static_cast<size_t>(loop_.peers())),
      bucket_norms_(options.plan.buckets().size()),
      shard_norms_(options.layout.shards().size()),
      has_shard_norm_(options.layout.shards().size()) {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "shard client");
    Run();
  });
}

ShardClient::~ShardClient() {
  {
    MutexLock lock(mutex_);
    is_stopping_ = true;
  }
  loop_.Wake();
  thread_.join();
}

void ShardClient::Open(std::span<const UpdateStretch> stretches) {
  for (const Shard& shard : options_.layout.shards()) {
    Outgoing outgoing;
    outgoing.peer = PeerOf(shard.index);
    outgoing.bytes = Encode(DescribeShard(shard, options_.plan, stretches));
    outgoing.message.op = ShardOp::kOpen;
    outgoing.message.shard = shard.index;
    MutexLock lock(mutex_);
    outbox_.push_back(std::move(outgoing));
  }
  loop_.Wake();
}

bool ShardClient::has_to_load() const {
  const std::vector<ShardPlacement>& shards = options_.placements.shards;
  return std::any_of(shards.begin(), shards.end(),
                     [](const ShardPlacement& placement) {
                       return placement.source_rank < 0;
                     });
}

void ShardClient::Load(StatePart part, int64_t step,
                       absl::Span<const float> arena) {
  const absl::Span<const Bucket> buckets = options_.plan.buckets();
  {
    MutexLock lock(mutex_);
    for (size_t bucket = 0; bucket < buckets.size(); ++bucket) {
      const int shard = options_.layout.ShardOf(static_cast<int>(bucket)).index;
      if (options_.placements.shards[static_cast<size_t>(shard)].source_rank >=
          0) {
        continue;
      }
      const ElemRange range = buckets[bucket].range;
      Outgoing outgoing;
      outgoing.message.op = ShardOp::kLoad;
      outgoing.message.part = part;
      outgoing.message.bucket = static_cast<int32_t>(bucket);
      outgoing.message.shard = shard;
      outgoing.message.step = step;
      outgoing.elements = {BytesOf(arena.data() + range.begin), range.count};
      outgoing.peer = PeerOf(shard);
      outbox_.push_back(std::move(outgoing));
    }
  }
  loop_.Wake();
}

void ShardClient::Pull(StatePart part, int64_t step, absl::Span<float> arena) {
  const absl::Span<const Bucket> buckets = options_.plan.buckets();
  for (size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    ShardMessage message;
    message.op = ShardOp::kPull;
    message.part = part;
    message.bucket = static_cast<int32_t>(bucket);
    message.step = step;
    Ask(message, arena.data() + buckets[bucket].range.begin,
        /*is_push=*/false);
  }
  loop_.Wake();
}

void ShardClient::Push(int bucket, int64_t step,
                       absl::Span<const float> gradients,
                       absl::Span<float> parameters) {
  const ElemRange range =
      options_.plan.buckets()[static_cast<size_t>(bucket)].range;
  ShardMessage message;
  message.op = ShardOp::kPush;
  message.bucket = bucket;
  message.rank = options_.loop.rank;
  message.step = step;
  Ask(message, parameters.data() + range.begin, /*is_push=*/true,
      {BytesOf(gradients.data() + range.begin), range.count, DType::kFloat32,
       options_.wire.value_or(DType::kFloat32)});
  loop_.Wake();
}

void ShardClient::Ask(const ShardMessage& message, float* data, bool is_push,
                      const MessageElements& elements) {
  Outgoing outgoing;
  outgoing.message = message;
  outgoing.message.shard = options_.layout.ShardOf(message.bucket).index;
  outgoing.elements = elements;
  outgoing.peer = PeerOf(outgoing.message.shard);
  MutexLock lock(mutex_);
  Awaited& awaited = AwaitedOf(message);
  RM_CHECK(awaited.data == nullptr, "a bucket is asked for once at a time");
  awaited = {data, is_push, message.step, options_.clock.Now()};
  if (is_push) pushed_step_ = message.step;
  ++outstanding_;
  ++outstanding_of_peer_[static_cast<size_t>(outgoing.peer)];
  outbox_.push_back(std::move(outgoing));
}

void ShardClient::Finish(DoneKind how) {
  {
    MutexLock lock(mutex_);
    for (int peer = 0; peer < loop_.peers(); ++peer) {
      Outgoing outgoing;
      outgoing.peer = peer;
      outgoing.message.op = ShardOp::kDone;
      outgoing.message.done = how;
      outbox_.push_back(std::move(outgoing));
    }
    is_finishing_ = true;
    unflushed_peer_ = 0;
  }
  loop_.Wake();
}

absl::Status ShardClient::Await(MonotonicTime deadline) {
  {
    MutexLock lock(mutex_);
    if (!failure_.ok() || IsDone()) return failure_;
    is_awaited_ = true;
  }
  loop_.Wake();  // what it has waited until now was hidden
  MutexLock lock(mutex_);
  while (failure_.ok() && !IsDone()) {
    if (changed_.WaitUntil(mutex_, options_.clock, deadline)) continue;
    const int peer = AwaitedPeer();
    if (peer < 0) break;
    blamed_rank_ = loop_.RankOf(peer);
    failure_ = absl::DeadlineExceededError(absl::StrCat(
        "rank ", blamed_rank_, ", which holds shards, did not ",
        outstanding_ > 0 ? "answer" : "take the end of the run", " in time"));
  }
  is_awaited_ = false;
  return failure_;
}

ShardClient::Updates ShardClient::TakeUpdates() {
  MutexLock lock(mutex_);
  Updates updates;
  // In one order on every rank, so that all get the same bits.
  for (const double norm :
       options_.clip_norm > 0 ? shard_norms_ : bucket_norms_) {
    updates.norm_squared += norm;
  }
  updates.non_finite_ranks.assign(non_finite_ranks_.begin(),
                                  non_finite_ranks_.end());
  non_finite_ranks_.clear();
  std::fill(has_shard_norm_.begin(), has_shard_norm_.end(), false);
  shard_norm_count_ = 0;
  return updates;
}

int ShardClient::highest_rank() const {
  int highest = -1;
  for (int peer = 0; peer < loop_.peers(); ++peer)
    highest = std::max(highest, loop_.RankOf(peer));
  return highest;
}

bool ShardClient::wants_drain() const {
  MutexLock lock(mutex_);
  return wants_drain_;
}

int64_t ShardClient::completed() const {
  MutexLock lock(mutex_);
  return completed_;
}

int ShardClient::waiting_for_rank() const {
  MutexLock lock(mutex_);
  const int peer = AwaitedPeer();
  return peer < 0 ? -1 : loop_.RankOf(peer);
}

int ShardClient::blamed_rank() const {
  MutexLock lock(mutex_);
  return blamed_rank_;
}

ShardClient::Awaited& ShardClient::AwaitedOf(const ShardMessage& message) {
  return awaited_[static_cast<size_t>(message.bucket) * kParts +
                  static_cast<size_t>(message.part)];
}

int ShardClient::MostAwaitedPeer() const {
  const auto most = std::max_element(outstanding_of_peer_.begin(),
                                     outstanding_of_peer_.end());
  if (most == outstanding_of_peer_.end() || *most == 0) return -1;
  return static_cast<int>(most - outstanding_of_peer_.begin());
}

int ShardClient::AwaitedPeer() const {
  if (!is_awaited_ || !failure_.ok()) return -1;
  const int peer = MostAwaitedPeer();
  return peer < 0 && is_finishing_ ? unflushed_peer_ : peer;
}

void ShardClient::Run() {
  absl::Status status = Serve();
  MutexLock lock(mutex_);
  if (failure_.ok()) {
    failure_ = std::move(status);
    blamed_rank_ = loop_.blamed_rank();
  }
  changed_.NotifyAll();
}

void ShardClient::Send(const Outgoing& next) {
  if (next.bytes.empty()) {
    loop_.Send(next.peer, next.message, next.elements);
  } else {
    loop_.SendCopy(next.peer, next.message,
                   {next.bytes.data(), static_cast<int64_t>(next.bytes.size()),
                    DType::kUint8, DType::kUint8});
  }
  // The peer may leave as soon as it has that.
  if (next.message.op == ShardOp::kDone) loop_.Leave(next.peer);
}

absl::Status ShardClient::Serve() {
  std::vector<Outgoing> outgoing;
  while (true) {
    int peer = -1;
    bool is_finishing = false;
    {
      MutexLock lock(mutex_);
      if (is_stopping_) return absl::AbortedError("the generation is over");
      outgoing.swap(outbox_);
      peer = AwaitedPeer();
      is_finishing = is_finishing_;
    }
    for (const Outgoing& next : outgoing) Send(next);
    outgoing.clear();
    loop_.SetWaitingFor(peer < 0 ? -1 : loop_.RankOf(peer));
    // The training thread has deadlines for what it waits for.
    RETURN_IF_ERROR(loop_.PollOnce(*this, MonotonicTime::InfiniteFuture()));
    if (!is_finishing) continue;
    int unflushed = -1;
    for (int i = 0; i < loop_.peers(); ++i) {
      if (!loop_.IsFlushed(i)) unflushed = i;
    }
    MutexLock lock(mutex_);
    unflushed_peer_ = unflushed;
    if (unflushed < 0) changed_.NotifyAll();
  }
}

absl::Status ShardClient::Unexpected(int peer,
                                     const ShardMessage& message) const {
  return absl::FailedPreconditionError(absl::StrCat(
      "rank ", loop_.RankOf(peer), " sent rank ", options_.loop.rank, " ",
      DescribeShardMessage(message), ", which it does not wait for"));
}

absl::StatusOr<std::optional<MessageSink>> ShardClient::OnMessage(
    int peer, const ShardMessage& message) {
  if (message.op == ShardOp::kNorm && options_.clip_norm > 0 &&
      message.shard >= 0 &&
      static_cast<size_t>(message.shard) < peer_of_shard_.size() &&
      PeerOf(message.shard) == peer) {
    return MessageSink();
  }
  const absl::Span<const Bucket> buckets = options_.plan.buckets();
  if (message.op != ShardOp::kValues || message.bucket < 0 ||
      static_cast<size_t>(message.bucket) >= buckets.size() ||
      PeerOf(options_.layout.ShardOf(message.bucket).index) != peer ||
      message.count !=
          buckets[static_cast<size_t>(message.bucket)].range.count) {
    return Unexpected(peer, message);
  }
  MutexLock lock(mutex_);
  const Awaited& awaited = AwaitedOf(message);
  if (awaited.data == nullptr ||
      (awaited.is_push && awaited.step != message.step))
    return Unexpected(peer, message);
  return MessageSink{reinterpret_cast<std::byte*>(awaited.data)};
}

absl::Status ShardClient::OnComplete(int peer, const ShardMessage& message) {
  if (message.op == ShardOp::kNorm) return OnNorm(peer, message);
  OnValues(peer, message);
  return absl::OkStatus();
}

void ShardClient::TellOfAnswer(const ShardMessage& message) {
  if (!options_.on_answer) return;
  Awaited awaited;
  {
    MutexLock lock(mutex_);
    awaited = AwaitedOf(message);
  }
  if (!awaited.is_push) return;
  options_.on_answer(message.bucket,
                     {awaited.data, static_cast<size_t>(message.count)});
}

void ShardClient::OnValues(int peer, const ShardMessage& message) {
  TellOfAnswer(message);
  const MonotonicTime now = options_.clock.Now();
  TraceSpan span;
  {
    MutexLock lock(mutex_);
    Awaited& awaited = AwaitedOf(message);
    span = {awaited.is_push ? "push_pull" : "pull",
            "communication",
            awaited.step,
            message.bucket,
            message.count * static_cast<int64_t>(sizeof(float)),
            awaited.since,
            awaited.since,
            now};
    if (awaited.is_push) {
      bucket_norms_[static_cast<size_t>(message.bucket)] = message.value;
      if (message.rank >= 0) non_finite_ranks_.insert(message.rank);
    }
    wants_drain_ |= message.wants_drain;
    awaited.data = nullptr;
    ++completed_;
    --outstanding_of_peer_[static_cast<size_t>(peer)];
    if (--outstanding_ == 0) changed_.NotifyAll();
  }
  options_.trace.Record(span);
}

// With the last norm of a step the factor is known, alike on all workers.
absl::Status ShardClient::OnNorm(int peer, const ShardMessage& message) {
  double norm_squared = 0;
  {
    MutexLock lock(mutex_);
    const auto shard = static_cast<size_t>(message.shard);
    if (has_shard_norm_[shard] || message.step != pushed_step_)
      return Unexpected(peer, message);
    has_shard_norm_[shard] = true;
    shard_norms_[shard] = message.value;
    if (++shard_norm_count_ < shard_norms_.size()) return absl::OkStatus();
    for (const double norm : shard_norms_) norm_squared += norm;
  }
  ShardMessage scale;
  scale.op = ShardOp::kScale;
  scale.step = message.step;
  scale.value = std::isfinite(norm_squared)
                    ? ClipFactor(norm_squared, options_.clip_norm)
                    : std::numeric_limits<double>::quiet_NaN();
  for (size_t shard = 0; shard < peer_of_shard_.size(); ++shard) {
    scale.shard = static_cast<int32_t>(shard);
    loop_.Send(peer_of_shard_[shard], scale);
  }
  return absl::OkStatus();
}

}  // namespace ringmaster
