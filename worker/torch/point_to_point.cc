#include "worker/torch/point_to_point.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status/status_macros.h"
#include "common/transport/blamed_peer.h"
#include "common/transport/wait_io.h"

namespace ringmaster {

class Transfer {
 public:
  static std::shared_ptr<Transfer> Send(int to, MessageKey key,
                                        std::span<const std::byte> bytes,
                                        PointToPoint::Owner owner) {
    return std::shared_ptr<Transfer>(
        new Transfer(true, to, key, bytes, {}, std::move(owner)));
  }
  static std::shared_ptr<Transfer> Receive(int from, MessageKey key,
                                           std::span<std::byte> bytes,
                                           PointToPoint::Owner owner) {
    return std::shared_ptr<Transfer>(
        new Transfer(false, from, key, {}, bytes, std::move(owner)));
  }

  const bool is_send;
  const int peer;  // kAnyRank: whoever sends such a message
  const MessageKey key;
  const std::span<const std::byte> outgoing;
  const std::span<std::byte> incoming;

  PointToPoint::Owner owner;  // of the bytes; null once it is over
  bool is_over = false;
  bool has_begun = false;  // some of its bytes have moved
  int source = -1;
  absl::Status status;

 private:
  Transfer(bool sends, int other, MessageKey message_key,
           std::span<const std::byte> from, std::span<std::byte> into,
           PointToPoint::Owner bytes_owner)
      : is_send(sends),
        peer(other),
        key(message_key),
        outgoing(from),
        incoming(into),
        owner(std::move(bytes_owner)) {}
};

class SCOPED_CAPABILITY PointToPoint::Locked {
 public:
  explicit Locked(PointToPoint& messages) ACQUIRE(messages.mutex_)
      : messages_(messages) {
    messages_.mutex_.Lock();
  }
  ~Locked() RELEASE() {
    released_.swap(messages_.released_);
    messages_.mutex_.Unlock();
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  PointToPoint& messages_;
  std::vector<Owner> released_;
};

namespace {

// Between two looks whether the hosts of the peers still answer.
constexpr int kLookMs = 1000;

struct Header {
  MessageKey key;
  uint64_t bytes = 0;
};

// Both sides are x86-64 or another little-endian machine: frames assume it, too.
static_assert(sizeof(Header) == 16);

std::string NameOf(const Transfer& transfer) {
  const std::string who = transfer.peer == PointToPoint::kAnyRank
                              ? std::string("any rank")
                              : absl::StrCat("rank ", transfer.peer);
  const char* what = transfer.is_send ? " to receive" : " to send";
  return transfer.key.kind == MessageKey::Kind::kUser
             ? absl::StrCat(who, what, " a message with tag ", transfer.key.tag)
             : absl::StrCat(who, what, " its part of exchange ",
                            transfer.key.tag);
}

iovec PieceOf(const std::byte* at, size_t bytes) {
  return {const_cast<std::byte*>(at), bytes};
}

}  // namespace

PointToPoint::PointToPoint(int rank, std::vector<std::unique_ptr<Link>> links,
                           Clock& clock)
    : rank_(rank),
      clock_(clock),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  peers_.resize(links.size());
  for (size_t i = 0; i < links.size(); ++i) {
    peers_[i].link = std::move(links[i]);
  }
}

PointToPoint::~PointToPoint() { Stop("the process group was destroyed"); }

void PointToPoint::Stop(std::string_view why) {
  std::thread thread;
  {
    const Locked lock(*this);
    AbortLocked(why);
    WakeThread();
    is_stopping_ = true;
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

absl::Status PointToPoint::CheckAnyPeer() const {
  absl::Status last =
      absl::InvalidArgumentError("there is no other rank in the process group");
  for (const Peer& peer : peers_) {
    if (peer.link == nullptr) continue;
    if (peer.failure.ok()) return absl::OkStatus();
    last = peer.failure;
  }
  return last;
}

absl::Status PointToPoint::CheckPeer(int rank) const {
  if (rank >= 0 && rank != rank_ && static_cast<size_t>(rank) < peers_.size())
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      rank == rank_
          ? absl::StrCat("rank ", rank, " cannot send to itself")
          : absl::StrCat("rank ", rank, " in a group of ", peers_.size()));
}

std::shared_ptr<Transfer> PointToPoint::Send(int to, MessageKey key,
                                             std::span<const std::byte> bytes,
                                             Owner owner) {
  const std::shared_ptr<Transfer> transfer =
      Transfer::Send(to, key, bytes, std::move(owner));
  const Locked lock(*this);
  absl::Status status = abort_;
  if (status.ok()) status = CheckPeer(to);
  if (status.ok()) status = PeerOf(to).failure;
  if (!status.ok()) {
    End(*transfer, std::move(status));
    return transfer;
  }
  Peer& peer = PeerOf(to);
  peer.sends.push_back(transfer);
  if (peer.sends.size() == 1) AdvanceSends(to);
  if (!transfer->is_over) {
    StartThread();
    WakeThread();
  }
  return transfer;
}

std::shared_ptr<Transfer> PointToPoint::Receive(int from, MessageKey key,
                                                std::span<std::byte> bytes,
                                                Owner owner) {
  const std::shared_ptr<Transfer> transfer =
      Transfer::Receive(from, key, bytes, std::move(owner));
  const Locked lock(*this);
  absl::Status status = abort_;
  if (status.ok() && from != kAnyRank) status = CheckPeer(from);
  if (!status.ok()) {
    End(*transfer, std::move(status));
    return transfer;
  }
  wanted_.push_back(transfer);
  for (size_t i = 0; i < peers_.size() && !transfer->is_over; ++i) {
    const int rank = static_cast<int>(i);
    if (rank == rank_ || (from != kAnyRank && from != rank)) continue;
    TakeKept(rank);
    if (!transfer->is_over) AdvanceReceives(rank);
  }
  // What had come before a peer's end was still to be had.
  const absl::Status left =
      from == kAnyRank ? CheckAnyPeer() : PeerOf(from).failure;
  if (!transfer->is_over && !left.ok()) {
    std::erase(wanted_, transfer);
    End(*transfer, left);
  }
  if (!transfer->is_over) {
    StartThread();
    WakeThread();
  }
  return transfer;
}

void PointToPoint::End(Transfer& transfer, absl::Status status) {
  if (transfer.is_over) return;
  transfer.is_over = true;
  ++over_count_;
  if (transfer.owner != nullptr)
    released_.push_back(std::exchange(transfer.owner, nullptr));
  transfer.status = std::move(status);
  over_.NotifyAll();
}

void PointToPoint::FailLink(int rank, const absl::Status& failure) {
  const absl::Status why =
      absl::IsUnavailable(failure) ? WithBlamedPeer(failure, rank) : failure;
  Peer& peer = PeerOf(rank);
  if (peer.failure.ok()) peer.failure = why;
  if (peer.link != nullptr) peer.link->Close();
  for (const auto& send : std::exchange(peer.sends, {})) End(*send, why);
  if (peer.into != nullptr) End(*std::exchange(peer.into, nullptr), why);
  const bool is_last = !CheckAnyPeer().ok();
  std::erase_if(wanted_, [&](const std::shared_ptr<Transfer>& receive) {
    if (receive->peer != rank && !(is_last && receive->peer == kAnyRank))
      return false;
    End(*receive, why);
    return true;
  });
}

void PointToPoint::AdvanceSends(int rank) {
  Peer& peer = PeerOf(rank);
  if (!peer.failure.ok()) return;
  if (const absl::Status status = TrySends(peer); !status.ok())
    FailLink(rank, status);
}

absl::Status PointToPoint::TrySends(Peer& peer) {
  while (!peer.sends.empty()) {
    Transfer& first = *peer.sends.front();
    if (peer.sent == 0) {
      const Header header = {first.key, first.outgoing.size()};
      std::memcpy(peer.send_header.data(), &header, kHeaderBytes);
    }
    std::array<iovec, 2> parts;
    size_t count = 0;
    if (peer.sent < kHeaderBytes) {
      parts[count++] = PieceOf(peer.send_header.data() + peer.sent,
                               kHeaderBytes - peer.sent);
    }
    const size_t done = peer.sent < kHeaderBytes ? 0 : peer.sent - kHeaderBytes;
    if (done < first.outgoing.size()) {
      parts[count++] =
          PieceOf(first.outgoing.data() + done, first.outgoing.size() - done);
    }
    ASSIGN_OR_RETURN(const size_t moved,
                     peer.link->TryWrite({parts.data(), count}));
    if (moved == 0) return absl::OkStatus();
    first.has_begun = true;
    peer.sent += moved;
    if (peer.sent < kHeaderBytes + first.outgoing.size()) continue;
    peer.sent = 0;
    End(first, absl::OkStatus());
    peer.sends.pop_front();
  }
  return absl::OkStatus();
}

void PointToPoint::AdvanceReceives(int rank) {
  Peer& peer = PeerOf(rank);
  if (!peer.failure.ok()) return;
  if (const absl::Status status = TryReceives(rank); !status.ok())
    FailLink(rank, status);
}

absl::Status PointToPoint::TryReceives(int rank) {
  Peer& peer = PeerOf(rank);
  while (peer.into != nullptr || peer.is_keeping || IsAnythingWanted(rank)) {
    if (peer.received < kHeaderBytes) {
      const iovec part = PieceOf(peer.receive_header.data() + peer.received,
                                 kHeaderBytes - peer.received);
      ASSIGN_OR_RETURN(const size_t moved, peer.link->TryRead({&part, 1}));
      if (moved == 0) return absl::OkStatus();
      peer.received += moved;
      if (peer.received < kHeaderBytes) continue;
    }
    if (peer.into == nullptr && !peer.is_keeping) {
      RETURN_IF_ERROR(Place(rank));
    }
    const std::span<std::byte> into =
        peer.is_keeping ? std::span<std::byte>(peer.keeping.bytes)
                        : peer.into->incoming;
    const size_t done = peer.received - kHeaderBytes;
    if (done < into.size()) {
      const iovec part = PieceOf(into.data() + done, into.size() - done);
      ASSIGN_OR_RETURN(const size_t moved, peer.link->TryRead({&part, 1}));
      if (moved == 0) return absl::OkStatus();
      peer.received += moved;
    }
    if (peer.received == kHeaderBytes + into.size()) FinishMessage(rank);
  }
  return absl::OkStatus();
}

absl::Status PointToPoint::Place(int rank) {
  Peer& peer = PeerOf(rank);
  Header header;
  std::memcpy(&header, peer.receive_header.data(), kHeaderBytes);
  const std::shared_ptr<Transfer> transfer = WantedBy(rank, header.key);
  if (transfer == nullptr) {
    // One behind it is wanted.
    try {
      peer.keeping = {header.key, std::vector<std::byte>(header.bytes)};
    } catch (const std::exception&) {  // bad_alloc, length_error
      return absl::ResourceExhaustedError(absl::StrCat(
          "rank ", rank_, " has no room for a message of ", header.bytes,
          " bytes from rank ", rank, ", which nobody has asked for yet"));
    }
    peer.is_keeping = true;
    return absl::OkStatus();
  }
  std::erase(wanted_, transfer);
  transfer->source = rank;
  if (header.bytes == transfer->incoming.size()) {
    transfer->has_begun = true;
    peer.into = transfer;
    return absl::OkStatus();
  }
  const absl::Status status = absl::FailedPreconditionError(absl::StrCat(
      "rank ", rank_, " expected ", transfer->incoming.size(), " bytes of ",
      NameOf(*transfer), ", but it sent ", header.bytes));
  End(*transfer, status);
  return status;
}

void PointToPoint::FinishMessage(int rank) {
  Peer& peer = PeerOf(rank);
  peer.received = 0;
  if (peer.is_keeping) {
    peer.is_keeping = false;
    peer.kept.push_back(std::exchange(peer.keeping, {}));
    TakeKept(rank);
    return;
  }
  End(*std::exchange(peer.into, nullptr), absl::OkStatus());
}

void PointToPoint::TakeKept(int rank) {
  Peer& peer = PeerOf(rank);
  for (auto it = peer.kept.begin(); it != peer.kept.end();) {
    const std::shared_ptr<Transfer> transfer = WantedBy(rank, it->key);
    if (transfer == nullptr) {
      ++it;
      continue;
    }
    std::erase(wanted_, transfer);
    transfer->source = rank;
    const size_t bytes = it->bytes.size();
    if (bytes == transfer->incoming.size()) {
      std::copy(it->bytes.begin(), it->bytes.end(), transfer->incoming.begin());
      End(*transfer, absl::OkStatus());
    } else {
      End(*transfer,
          absl::FailedPreconditionError(absl::StrCat(
              "rank ", rank_, " expected ", transfer->incoming.size(),
              " bytes of ", NameOf(*transfer), ", but it sent ", bytes)));
    }
    it = peer.kept.erase(it);
  }
}

std::shared_ptr<Transfer> PointToPoint::WantedBy(int rank, MessageKey key) {
  for (const std::shared_ptr<Transfer>& receive : wanted_) {
    if (receive->key == key &&
        (receive->peer == rank || receive->peer == kAnyRank)) {
      return receive;
    }
  }
  return nullptr;
}

bool PointToPoint::IsAnythingWanted(int rank) {
  return std::any_of(wanted_.begin(), wanted_.end(),
                     [rank](const std::shared_ptr<Transfer>& receive) {
                       return receive->peer == rank ||
                              receive->peer == kAnyRank;
                     });
}

absl::Status PointToPoint::Wait(Transfer& transfer, MonotonicTime deadline) {
  const Locked lock(*this);
  awaited_.push_back(&transfer);
  while (!transfer.is_over) {
    if (over_.WaitUntil(mutex_, clock_, deadline) || transfer.is_over) continue;
    const absl::Status status = absl::DeadlineExceededError(
        absl::StrCat("rank ", rank_, " waited for ", NameOf(transfer)));
    if (transfer.has_begun) {
      FailLink(transfer.is_send ? transfer.peer : transfer.source, status);
    } else {
      const auto is_it = [&](const std::shared_ptr<Transfer>& other) {
        return other.get() == &transfer;
      };
      std::erase_if(wanted_, is_it);
      if (transfer.is_send) std::erase_if(PeerOf(transfer.peer).sends, is_it);
    }
    End(transfer, status);
  }
  awaited_.erase(std::find(awaited_.begin(), awaited_.end(), &transfer));
  return transfer.status;
}

PointToPoint::Awaited PointToPoint::awaited() const {
  MutexLock lock(mutex_);
  for (const Transfer* transfer : awaited_) {
    if (transfer->peer == kAnyRank || transfer->is_over) continue;
    return {transfer->peer, transfer->key, transfer->is_send, over_count_};
  }
  return {.rank = kAnyRank, .key = {}, .is_send = false, .over = over_count_};
}

bool PointToPoint::IsOver(const Transfer& transfer) const {
  MutexLock lock(mutex_);
  return transfer.is_over;
}

int PointToPoint::SourceOf(const Transfer& transfer) const {
  MutexLock lock(mutex_);
  return transfer.is_over ? transfer.source : -1;
}

void PointToPoint::Abort(std::string_view why) {
  const Locked lock(*this);
  AbortLocked(why);
}

void PointToPoint::AbortLocked(std::string_view why) {
  if (!abort_.ok()) return;
  abort_ = absl::AbortedError(absl::string_view(why.data(), why.size()));
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (static_cast<int>(i) != rank_) FailLink(static_cast<int>(i), abort_);
  }
  for (const auto& receive : std::exchange(wanted_, {})) End(*receive, abort_);
}

void PointToPoint::StartThread() {
  if (thread_.joinable() || is_stopping_) return;
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "messages");
    ThreadMain();
  });
}

void PointToPoint::WakeThread() {
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
}

void PointToPoint::ThreadMain() {
  std::vector<pollfd> polled;
  std::vector<int> ranks;
  while (true) {
    polled.assign(1, {wake_.get(), POLLIN, 0});
    ranks.clear();
    {
      MutexLock lock(mutex_);
      if (is_stopping_) return;
      for (size_t i = 0; i < peers_.size(); ++i) {
        const Peer& peer = peers_[i];
        const int rank = static_cast<int>(i);
        if (peer.link == nullptr || !peer.failure.ok()) continue;
        const bool reads =
            peer.into != nullptr || peer.is_keeping || IsAnythingWanted(rank);
        const int events =
            (reads ? POLLIN : 0) | (peer.sends.empty() ? 0 : POLLOUT);
        if (events == 0) continue;
        polled.push_back({peer.link->fd(), static_cast<short>(events), 0});
        ranks.push_back(rank);
      }
    }
    // A network that drops everything wakes nobody.
    (void)!poll(polled.data(), polled.size(), ranks.empty() ? -1 : kLookMs);
    const Locked lock(*this);
    if (polled[0].revents != 0) {
      uint64_t count = 0;
      (void)!read(wake_.get(), &count, sizeof(count));
    }
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (polled[i + 1].revents != 0) {
        AdvanceSends(ranks[i]);
        AdvanceReceives(ranks[i]);
      }
      Peer& peer = PeerOf(ranks[i]);
      if (!peer.failure.ok()) continue;
      const absl::Status alive = peer.link->CheckPeer(clock_.Now());
      if (!alive.ok()) FailLink(ranks[i], alive);
    }
  }
}

}  // namespace ringmaster
