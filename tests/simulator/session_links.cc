#include "tests/simulator/session_links.h"

#include <algorithm>
#include <utility>

namespace ringmaster::simulator {
namespace {

// As common/rpc/channel.cc sets keepalive: a ping after 10 s, given up 5 s
// later at most.
constexpr int64_t kKeepaliveMin = 10 * kSecond;
constexpr int64_t kKeepaliveMax = 15 * kSecond;

agent::SessionDown Unavailable(std::string_view why) {
  agent::SessionDown down;
  down.message = std::string(why);
  return down;
}

}  // namespace

void SessionLinks::Schedule(SessionId session, int direction) {
  Connection& connection = At(session);
  int64_t& last = direction == 0 ? connection.down.last_arrival
                                 : connection.up.last_arrival;
  last = std::max(last, context_.now + context_.Latency());
  SimEvent event;
  event.kind =
      direction == 0 ? EventKind::kToWorker : EventKind::kToCoordinator;
  event.slot = static_cast<int8_t>(direction == 0 ? connection.slot : -1);
  event.version = static_cast<uint32_t>(session);
  context_.At(last, event);
}

template <typename Message>
void SessionLinks::Push(SessionId session, Stream<Message>& stream,
                        Message message, int direction) {
  stream.queue.push_back(std::move(message));
  if (stream.held > 0 || IsCut(At(session), direction)) {
    ++stream.held;
  } else {
    Schedule(session, direction);
  }
}

template <typename Message>
void SessionLinks::DropSome(Stream<Message>& stream) {
  const auto kept = static_cast<size_t>(
      context_.random.Between(0, static_cast<int64_t>(stream.queue.size())));
  while (stream.queue.size() > kept) {
    stream.queue.pop_back();
    if (stream.held > 0) --stream.held;
  }
}

// ---- The worker's side.

SessionLinks::SessionId SessionLinks::Open(int slot,
                                           coordinator::HelloReceived hello) {
  Connection& connection = connections_.emplace_back();
  const SessionId session = connections_.size();
  connection.slot = slot;
  connection.coordinator_life = coordinator_life_;
  hello.session = session;
  Push<coordinator::EventBody>(session, connection.up, std::move(hello), 1);
  return session;
}

void SessionLinks::SendUp(SessionId session, coordinator::EventBody message) {
  Connection& connection = At(session);
  if (!connection.is_open_at_worker) return;
  Push(session, connection.up, std::move(message), 1);
}

void SessionLinks::CloseByWorker(SessionId session) {
  Connection& connection = At(session);
  if (!connection.is_open_at_worker) return;
  connection.is_open_at_worker = false;
  Push<coordinator::EventBody>(
      session, connection.up,
      coordinator::StreamClosed{session, "the worker ended it"}, 1);
}

void SessionLinks::LoseWorker(int slot, bool is_silent) {
  for (size_t i = 0; i < connections_.size(); ++i) {
    Connection& connection = connections_[i];
    if (connection.slot != slot || !connection.is_open_at_worker) continue;
    connection.is_open_at_worker = false;
    DropSome(connection.up);
    if (is_silent) continue;
    Push<coordinator::EventBody>(
        i + 1, connection.up,
        coordinator::StreamClosed{i + 1, "connection lost"}, 1);
  }
}

// ---- The coordinator's side.

void SessionLinks::LoseCoordinator() {
  coordinator_life_ = 0;
  for (size_t i = 0; i < connections_.size(); ++i) {
    Connection& connection = connections_[i];
    if (!connection.is_open_at_coordinator) continue;
    connection.is_open_at_coordinator = false;
    connection.up.queue.clear();
    connection.up.held = 0;
    DropSome(connection.down);
    Push<agent::Event>(i + 1, connection.down,
                       Unavailable("connection reset by peer"), 0);
  }
}

void SessionLinks::SendDown(SessionId session, agent::Event message) {
  Connection& connection = At(session);
  if (!connection.is_open_at_coordinator) return;
  connection.is_established = true;
  Push(session, connection.down, std::move(message), 0);
}

void SessionLinks::CloseByCoordinator(SessionId session,
                                      agent::SessionDown end) {
  Connection& connection = At(session);
  if (!connection.is_open_at_coordinator) return;
  connection.is_open_at_coordinator = false;
  Push<agent::Event>(session, connection.down, std::move(end), 0);
}

// ---- The network.

void SessionLinks::Cut(int slot, int directions, int64_t until) {
  if (!IsCut(slot)) cut_since_[slot] = context_.now;
  for (int direction = 0; direction < 2; ++direction) {
    if ((directions & (1 << direction)) == 0) continue;
    cut_until_[slot][direction] = std::max(cut_until_[slot][direction], until);
  }
  SimEvent event;
  event.slot = static_cast<int8_t>(slot);
  event.kind = EventKind::kSessionDead;
  context_.After(context_.random.Between(kKeepaliveMin, kKeepaliveMax), event);
  event.kind = EventKind::kSessionHeal;
  context_.At(until, event);
}

void SessionLinks::StallCoordinator(int64_t until) {
  if (stalled_until_ <= context_.now) stalled_since_ = context_.now;
  stalled_until_ = std::max(stalled_until_, until);
  for (int slot = 0; slot < kWorkers; ++slot) {
    SimEvent event;
    event.slot = static_cast<int8_t>(slot);
    event.kind = EventKind::kSessionDead;
    context_.After(context_.random.Between(kKeepaliveMin, kKeepaliveMax),
                   event);
  }
}

void SessionLinks::BreakHere(SessionId session, std::string_view why) {
  Connection& connection = At(session);
  if (connection.is_open_at_worker) {
    DropSome(connection.down);
    connection.down.queue.push_back(Unavailable(why));
    // Nothing is held up any more: the end comes from here.
    for (; connection.down.held >= 0; --connection.down.held) {
      Schedule(session, 0);
    }
    connection.down.held = 0;
  }
  if (connection.is_open_at_coordinator) {
    DropSome(connection.up);
    connection.up.queue.push_back(
        coordinator::StreamClosed{session, std::string(why)});
    for (; connection.up.held >= 0; --connection.up.held) {
      Schedule(session, 1);
    }
    connection.up.held = 0;
  }
}

void SessionLinks::Reset(int slot) {
  for (size_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i].slot == slot) BreakHere(i + 1, "connection reset");
  }
}

void SessionLinks::GiveUp(int slot) {
  const bool is_cut =
      IsCut(slot) && context_.now - cut_since_[slot] >= kKeepaliveMin;
  const bool is_stalled = context_.now < stalled_until_ &&
                          context_.now - stalled_since_ >= kKeepaliveMin;
  if (!is_cut && !is_stalled) return;
  for (size_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i].slot == slot) BreakHere(i + 1, "keepalive timeout");
  }
}

void SessionLinks::Heal(int slot) {
  for (size_t i = 0; i < connections_.size(); ++i) {
    Connection& connection = connections_[i];
    if (connection.slot != slot) continue;
    if (!IsCut(connection, 0)) {
      for (; connection.down.held > 0; --connection.down.held) {
        Schedule(i + 1, 0);
      }
    }
    if (!IsCut(connection, 1)) {
      for (; connection.up.held > 0; --connection.up.held) Schedule(i + 1, 1);
    }
  }
}

std::optional<agent::Event> SessionLinks::TakeDown(SessionId session) {
  Connection& connection = At(session);
  Stream<agent::Event>& stream = connection.down;
  if (stream.queue.empty()) return std::nullopt;
  agent::Event message = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (!connection.is_open_at_worker) return std::nullopt;
  if (std::holds_alternative<agent::SessionDown>(message)) {
    connection.is_open_at_worker = false;
  }
  return message;
}

std::optional<coordinator::EventBody> SessionLinks::TakeUp(SessionId session) {
  Connection& connection = At(session);
  Stream<coordinator::EventBody>& stream = connection.up;
  if (stream.queue.empty()) return std::nullopt;
  coordinator::EventBody message = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (connection.is_open_at_coordinator &&
      (coordinator_life_ == 0 ||
       connection.coordinator_life != coordinator_life_)) {
    // Nobody listens, or somebody else.
    connection.is_open_at_coordinator = false;
    Push<agent::Event>(session, connection.down,
                       Unavailable("connection refused"), 0);
    return std::nullopt;
  }
  if (!connection.is_open_at_coordinator) return std::nullopt;
  if (std::holds_alternative<coordinator::StreamClosed>(message)) {
    connection.is_open_at_coordinator = false;
  }
  return message;
}

}  // namespace ringmaster::simulator
