// PointToPoint carries messages between single ranks of a process group.
//
// Messages from one rank to another that have the same key arrive in the order in
// which they were sent; those of other keys may be received before. A message
// is taken from its link once somebody wants it, or one behind it: until then it
// waits with its sender.
// What can be done at once is done on the calling thread; the rest on a thread
// that exists from the first transfer on.
// Thread-safe. The destructor fails what is under way.
#ifndef RINGMASTER_WORKER_TORCH_POINT_TO_POINT_H_
#define RINGMASTER_WORKER_TORCH_POINT_TO_POINT_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock/clock.h"
#include "common/sync/mutex.h"
#include "common/transport/link.h"
#include "common/transport/unique_fd.h"

namespace ringmaster {

// What a message is: the user's, by a tag, or part of a collective, by its
// number.
struct MessageKey {
  enum class Kind : uint32_t { kUser = 1, kCollective };
  Kind kind = Kind::kUser;
  uint32_t tag = 0;

  friend auto operator<=>(const MessageKey&, const MessageKey&) = default;
};

// A message on its way; a handle for Wait and the observers.
class Transfer;

class PointToPoint {
 public:
  static constexpr int kAnyRank = -1;

  // `links` by rank; null for `rank` itself. `clock` outlives this.
  PointToPoint(int rank, std::vector<std::unique_ptr<Link>> links,
               Clock& clock);
  ~PointToPoint();
  PointToPoint(const PointToPoint&) = delete;
  PointToPoint& operator=(const PointToPoint&) = delete;

  // Keeps the memory of a message until it is over; may be null, and then the
  // caller does.
  using Owner = std::shared_ptr<const void>;

  // Begin to send `bytes`, or to receive as many as `bytes` has. A transfer that
  // cannot be has failed.
  [[nodiscard]] std::shared_ptr<Transfer> Send(int to, MessageKey key,
                                               std::span<const std::byte> bytes,
                                               Owner owner = nullptr);
  [[nodiscard]] std::shared_ptr<Transfer> Receive(int from, MessageKey key,
                                                  std::span<std::byte> bytes,
                                                  Owner owner = nullptr);

  // Waits for the end of a transfer of this object.
  //   OK                   it is done
  //   INVALID_ARGUMENT     a rank that is not another one of the group
  //   FAILED_PRECONDITION  the message has another size: both are named
  //   UNAVAILABLE          the peer is gone: named, also by BlamedPeer
  //   DEADLINE_EXCEEDED    names the peer that was waited for; a message in the
  //                        middle of which it happens takes the link with it
  //   ABORTED              of Abort
  [[nodiscard]] absl::Status Wait(Transfer& transfer, MonotonicTime deadline);

  [[nodiscard]] bool IsOver(const Transfer& transfer) const;
  // The rank that a message came from, once it is over; else -1.
  [[nodiscard]] int SourceOf(const Transfer& transfer) const;

  // What the longest wait is for that has a peer: for those who watch.
  struct Awaited {
    int rank = kAnyRank;  // kAnyRank: there is none
    MessageKey key;
    bool is_send = false;
    int64_t over = 0;  // transfers that are over by now
  };
  [[nodiscard]] Awaited awaited() const;

  // Fails everything under way and to come with ABORTED `why`.
  void Abort(std::string_view why);
  // The same, and ends the thread.
  void Stop(std::string_view why);

 private:
  static constexpr size_t kHeaderBytes = 16;
  using HeaderBytes = std::array<std::byte, kHeaderBytes>;
  using TransferList = std::deque<std::shared_ptr<Transfer>>;

  // A message that came before somebody wanted it.
  struct Kept {
    MessageKey key;
    std::vector<std::byte> bytes;
  };

  struct Peer {
    std::unique_ptr<Link> link;  // null: this rank
    absl::Status failure;        // of the link

    TransferList sends;
    HeaderBytes send_header = {};
    size_t sent = 0;  // of the first one, with its header

    HeaderBytes receive_header = {};
    size_t received = 0;  // of the message that comes now, with its header
    // Where its bytes go, once its header is here: one of these.
    std::shared_ptr<Transfer> into;
    Kept keeping;
    bool is_keeping = false;
    std::deque<Kept> kept;
  };

  // Holds the mutex; after it, frees what belonged to transfers that have ended.
  // An owner may have to take another lock for that, the interpreter's.
  class Locked;

  [[nodiscard]] Peer& PeerOf(int rank) REQUIRES(mutex_) {
    return peers_[static_cast<size_t>(rank)];
  }
  [[nodiscard]] absl::Status CheckPeer(int rank) const;
  void End(Transfer& transfer, absl::Status status) REQUIRES(mutex_);
  void FailLink(int rank, const absl::Status& failure) REQUIRES(mutex_);
  void AbortLocked(std::string_view why) REQUIRES(mutex_);
  // OK if a message may still come from some rank.
  [[nodiscard]] absl::Status CheckAnyPeer() const REQUIRES(mutex_);

  // Do what can be done now. Errors of the link end in FailLink.
  void AdvanceSends(int rank) REQUIRES(mutex_);
  void AdvanceReceives(int rank) REQUIRES(mutex_);
  [[nodiscard]] absl::Status TrySends(Peer& peer) REQUIRES(mutex_);
  [[nodiscard]] absl::Status TryReceives(int rank) REQUIRES(mutex_);
  // Chooses where the message whose header is here goes. Requires that it, or
  // one behind it, is wanted.
  [[nodiscard]] absl::Status Place(int rank) REQUIRES(mutex_);
  void FinishMessage(int rank) REQUIRES(mutex_);
  // Gives kept messages to those who want them by now.
  void TakeKept(int rank) REQUIRES(mutex_);
  [[nodiscard]] std::shared_ptr<Transfer> WantedBy(int rank, MessageKey key)
      REQUIRES(mutex_);
  [[nodiscard]] bool IsAnythingWanted(int rank) REQUIRES(mutex_);
  void StartThread() REQUIRES(mutex_);
  void WakeThread() REQUIRES(mutex_);
  void ThreadMain();

  const int rank_;
  Clock& clock_;
  UniqueFd wake_;  // an eventfd
  mutable Mutex mutex_;
  CondVar over_;
  std::vector<Peer> peers_ GUARDED_BY(mutex_);
  TransferList wanted_ GUARDED_BY(mutex_);  // receives that have no message yet
  std::deque<const Transfer*> awaited_ GUARDED_BY(mutex_);  // by Wait
  int64_t over_count_ GUARDED_BY(mutex_) = 0;
  std::vector<Owner> released_
      GUARDED_BY(mutex_);  // of transfers that are over
  absl::Status abort_ GUARDED_BY(mutex_);
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_ GUARDED_BY(mutex_);  // from the first transfer on
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TORCH_POINT_TO_POINT_H_
