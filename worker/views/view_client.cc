#include "worker/views/view_client.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <array>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "common/transport/wait_io.h"
#include "worker/views/packet_socket.h"

namespace ringmaster {

absl::StatusOr<std::unique_ptr<ViewClient>> ViewClient::Connect(
    const std::string& name, absl::Duration limit, Clock& clock) {
  ASSIGN_OR_RETURN(UniqueFd socket, ConnectForPackets(name));
  const MonotonicTime deadline = clock.Now() + limit;
  std::optional<std::string> packet;
  while (!packet.has_value() && clock.Now() < deadline) {
    std::array<pollfd, 1> readable = {
        pollfd{.fd = socket.get(), .events = POLLIN, .revents = 0}};
    RETURN_IF_ERROR(WaitIo(readable, deadline - clock.Now()));
    ASSIGN_OR_RETURN(packet, TakePacket(socket.get(), kMaxViewPacket));
  }
  if (!packet.has_value() || *packet != ToPacket(ViewHello()))
    return absl::UnavailableError("the worker does not answer");
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop.is_open()) return absl::UnavailableError("no descriptor is left");
  return std::unique_ptr<ViewClient>(
      new ViewClient(std::move(socket), std::move(stop), clock));
}

ViewClient::ViewClient(UniqueFd socket, UniqueFd stop, Clock& clock)
    : clock_(clock),
      socket_(std::move(socket)),
      stop_(std::move(stop)),
      thread_([this] {
        pthread_setname_np(pthread_self(), "views");
        ThreadMain();
      }) {}

ViewClient::~ViewClient() {
  const uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void ViewClient::Tell(const ViewMessage& message) {
  (void)SendPacket(socket_.get(), ToPacket(message));
}

void ViewClient::TellCanGoOn(int rank, int world_size) {
  Tell(CanGoOn{rank, world_size});
}

void ViewClient::TellHasMet() { Tell(Meets{false}); }

void ViewClient::TellTakesNewcomers(const std::string& group) {
  Tell(TakesNewcomers{group});
}

void ViewClient::TellJoins(const std::string& member) { Tell(Joins{member}); }

void ViewClient::TellLost(int rank, int64_t view) {
  {
    MutexLock lock(mutex_);
    refused_.erase(rank);
  }
  Tell(LostRank{rank, view});
}

std::vector<View> ViewClient::Since(int64_t number) const {
  MutexLock lock(mutex_);
  std::vector<View> views;
  for (const View& view : views_) {
    if (view.number > number) views.push_back(view);
  }
  return views;
}

absl::Status ViewClient::WaitForView(int64_t number, int lost_rank,
                                     MonotonicTime deadline) {
  MutexLock lock(mutex_);
  while (views_.empty() || views_.back().number <= number) {
    if (refused_.contains(lost_rank)) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", lost_rank, " is not lost"));
    }
    if (is_gone_) return absl::UnavailableError("the worker is gone");
    if (!came_.WaitUntil(mutex_, clock_, deadline))
      return absl::DeadlineExceededError("no view came");
  }
  return absl::OkStatus();
}

ViewClient::Subscription ViewClient::Subscribe(std::function<void()> on_view) {
  MutexLock lock(subscriber_mutex_);
  const int64_t id = ++subscriptions_;
  subscribers_[id] = std::move(on_view);
  return Subscription(nullptr, [this, id](void*) {
    MutexLock end_lock(subscriber_mutex_);
    subscribers_.erase(id);
  });
}

void ViewClient::ThreadMain() {
  while (TakeAll()) {
    std::array<pollfd, 2> ready = {
        pollfd{.fd = socket_.get(), .events = POLLIN, .revents = 0},
        pollfd{.fd = stop_.get(), .events = POLLIN, .revents = 0}};
    (void)::poll(ready.data(), ready.size(), -1);
    if (ready[1].revents != 0) return;
  }
  MutexLock lock(mutex_);
  is_gone_ = true;
  came_.NotifyAll();
}

bool ViewClient::TakeAll() {
  while (true) {
    const absl::StatusOr<std::optional<std::string>> packet =
        TakePacket(socket_.get(), kMaxViewPacket);
    if (!packet.ok()) return false;
    if (!packet->has_value()) return true;
    const absl::StatusOr<ViewMessage> message = ParseViewPacket(**packet);
    if (message.ok()) Take(*message);
  }
}

void ViewClient::Take(const ViewMessage& message) {
  const auto* view = std::get_if<View>(&message);
  {
    MutexLock lock(mutex_);
    if (view != nullptr) {
      if (!views_.empty() && view->number <= views_.back().number) return;
      views_.push_back(*view);
      refused_.clear();
    } else if (const auto* no_view = std::get_if<NoView>(&message);
               no_view != nullptr) {
      refused_.insert(no_view->rank);
    }
    came_.NotifyAll();
  }
  if (view == nullptr) return;
  MutexLock lock(subscriber_mutex_);
  for (const auto& [id, on_view] : subscribers_) on_view();
}

}  // namespace ringmaster
