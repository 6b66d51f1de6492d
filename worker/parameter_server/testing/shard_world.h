// ShardWorld is a job's workers and holders of shards in one process, for
// tests: real hosts on threads of their own, connected over real channels with
// workers that a test drives.
#ifndef RINGMASTER_WORKER_PARAMETER_SERVER_TESTING_SHARD_WORLD_H_
#define RINGMASTER_WORKER_PARAMETER_SERVER_TESTING_SHARD_WORLD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/clock.h"
#include "common/parameter_server/message_loop.h"
#include "common/parameter_server/shard_host.h"
#include "common/parameter_server/shard_layout.h"
#include "common/transport/cancel_token.h"
#include "ringmaster/v1/job.pb.h"
#include "worker/parameter_server/shard_host.h"

namespace ringmaster {

// One worker, with a loop to every lane of every holder. Each call returns the
// first failure of the loop; waits end after half a minute.
class TestWorker final : public MessageLoop::Handler {
 public:
  // Elements are those of the whole model; `shards` tile it.
  TestWorker(int rank, int64_t generation, std::vector<ShardDescription> shards,
             std::vector<int> peer_of_shard, std::vector<MessagePeer> holders);

  [[nodiscard]] absl::Status Open();
  // The whole model's part; bucket by bucket.
  void Load(StatePart part, int64_t step, std::vector<float> elems);
  [[nodiscard]] absl::StatusOr<std::vector<float>> Pull(StatePart part,
                                                        int64_t step);
  // Pushes a bucket, or all, of `gradient`, which is the whole model's and
  // stays until the next call.
  void Push(int bucket, int64_t step, const std::vector<float>& gradient,
            DType wire = DType::kFloat32);
  void PushAll(int64_t step, const std::vector<float>& gradient,
               DType wire = DType::kFloat32);
  // Waits until `count` answers have come since the last call; parameters()
  // then has their values.
  [[nodiscard]] absl::Status AwaitValues(int count);
  [[nodiscard]] absl::Status AwaitNorms(int count);
  void Scale(int shard, int64_t step, double factor);
  [[nodiscard]] absl::Status Finish(DoneKind how = DoneKind::kFinished);
  // Sends `message` to the holder of its shard, as it is.
  void SendRaw(const ShardMessage& message, const MessageElements& elements);
  // The same to the holder and lane of another shard.
  void SendRawOnLaneOf(int shard, const ShardMessage& message);
  // Turns until all that was sent has gone.
  [[nodiscard]] absl::Status Flush();
  // Turns once, for what is there.
  [[nodiscard]] absl::Status Poll();

  [[nodiscard]] const std::vector<float>& parameters() const {
    return parameters_;
  }
  // Values and norms, in the order in which they came.
  [[nodiscard]] const std::vector<ShardMessage>& received() const {
    return received_;
  }
  void Forget() { received_.clear(); }
  [[nodiscard]] int buckets() const;
  [[nodiscard]] const std::vector<ShardDescription>& shards() const {
    return shards_;
  }

 private:
  struct Place {
    int shard = 0;
    int64_t begin = 0;
    int64_t count = 0;
  };
  [[nodiscard]] const Place& PlaceOf(int bucket) const {
    return places_[static_cast<size_t>(bucket)];
  }
  [[nodiscard]] absl::Status Await(const std::function<bool()>& is_done);
  absl::StatusOr<std::optional<MessageSink>> OnMessage(
      int peer, const ShardMessage& message) override;
  absl::Status OnComplete(int peer, const ShardMessage& message) override;

  const std::vector<ShardDescription> shards_;
  const std::vector<int> peer_of_shard_;
  std::vector<Place> places_;
  std::vector<float> parameters_;
  std::map<StatePart, std::vector<float>> parts_;
  std::vector<ShardMessage> received_;
  int values_ = 0;
  int norms_ = 0;
  CancelToken cancel_;
  MessageLoop loop_;
};

class ShardWorld {
 public:
  struct Options {
    int workers = 2;
    int hosts = 1;
    std::vector<ShardDescription> shards;
    v1::TrainProgram program;
    Transport transport = Transport::kLoopback;
  };
  explicit ShardWorld(Options options);
  ~ShardWorld();

  // Host i has rank workers + i, and as many lanes as the program has
  // connections. Prepares those that are there and runs them.
  // `placements` names ranks; addresses are not needed.
  [[nodiscard]] absl::Status Begin(int64_t generation, int64_t resume_step,
                                   std::vector<ShardPlacement> placements);
  // Cancels what still runs, and waits until all hosts have ended.
  void End();
  // The same without cancelling.
  void Join();
  // Forgets a host's shards: another process takes its place.
  void ReplaceHost(int host);

  [[nodiscard]] TestWorker& worker(int rank) {
    return *workers_[static_cast<size_t>(rank)];
  }
  // The worker is gone: its connections end.
  void KillWorker(int rank) { workers_[static_cast<size_t>(rank)].reset(); }
  [[nodiscard]] StoringShardHost& host(int index) {
    return *hosts_[static_cast<size_t>(index)];
  }
  // The end of the host's Run, after End or Join.
  [[nodiscard]] const absl::StatusOr<DoneKind>& end(int index) const {
    return ends_[static_cast<size_t>(index)];
  }

 private:
  Options options_;
  std::vector<std::unique_ptr<StoringShardHost>> hosts_;
  std::vector<std::unique_ptr<TestWorker>> workers_;
  std::vector<absl::StatusOr<DoneKind>> ends_;
  std::unique_ptr<CancelToken> cancel_;
  std::vector<std::thread> threads_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_PARAMETER_SERVER_TESTING_SHARD_WORLD_H_
