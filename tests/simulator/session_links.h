// SessionLinks: the network between workers and the coordinator.
//
// A connection carries messages both ways, in order, and ends with a
// StreamClosed or SessionDown on each side. While a direction is cut, what is
// sent that way is held up, as TCP does; keepalive ends the connections of a
// link that stays cut. A silent loss is not noticed here. Thread-compatible.
#ifndef RINGMASTER_TESTS_SIMULATOR_SESSION_LINKS_H_
#define RINGMASTER_TESTS_SIMULATOR_SESSION_LINKS_H_

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "server/coordinator/core/state/event.h"
#include "tests/simulator/context.h"
#include "worker/agent/core/agent_event.h"

namespace ringmaster::simulator {

class SessionLinks {
 public:
  using SessionId = coordinator::SessionId;

  explicit SessionLinks(Context& context) : context_(context) {}

  // ---- The worker's side.

  // Opens a connection; `hello` gets its session.
  SessionId Open(int slot, coordinator::HelloReceived hello);
  void SendUp(SessionId session, coordinator::EventBody message);
  // After what was sent before; the worker hears no more of it.
  void CloseByWorker(SessionId session);
  // The process ends. Not told to the other side if `is_silent`.
  void LoseWorker(int slot, bool is_silent);

  // ---- The coordinator's side.

  // A coordinator's life begins.
  void SetCoordinatorLife(uint32_t life) { coordinator_life_ = life; }
  void LoseCoordinator();
  void SendDown(SessionId session, agent::Event message);
  // After what was sent before.
  void CloseByCoordinator(SessionId session, agent::SessionDown end);

  // ---- The network's.

  // The directions are those of Fault.
  void Cut(int slot, int directions, int64_t until);
  void Reset(int slot);
  // The coordinator answers no pings until then.
  void StallCoordinator(int64_t until);
  // Handle the events kSessionHeal and kSessionDead.
  void Heal(int slot);
  void GiveUp(int slot);
  bool IsCut(int slot) const { return IsCut(slot, 0) || IsCut(slot, 1); }

  // The next message of the connection, whose time has come; nothing if there
  // is nobody to take it any more.
  std::optional<agent::Event> TakeDown(SessionId session);
  std::optional<coordinator::EventBody> TakeUp(SessionId session);
  int SlotOfSession(SessionId session) const {
    return connections_[session - 1].slot;
  }

 private:
  template <typename Message>
  struct Stream {
    std::deque<Message> queue;
    int held = 0;  // at the end of the queue, without a time
    int64_t last_arrival = 0;
  };
  struct Connection {
    int slot = -1;
    uint32_t coordinator_life = 0;
    bool is_open_at_worker = true;
    bool is_open_at_coordinator = true;
    // The coordinator has answered, so each direction is on its own.
    bool is_established = false;
    Stream<agent::Event> down;
    Stream<coordinator::EventBody> up;
  };

  bool IsCut(int slot, int direction) const {
    return cut_until_[slot][direction] > context_.now;
  }
  bool IsCut(const Connection& connection, int direction) const {
    return connection.is_established ? IsCut(connection.slot, direction)
                                     : IsCut(connection.slot);
  }
  Connection& At(SessionId session) { return connections_[session - 1]; }
  void Schedule(SessionId session, int direction);
  template <typename Message>
  void Push(SessionId session, Stream<Message>& stream, Message message,
            int direction);
  // Loses some of what is under way, then all that follows.
  template <typename Message>
  void DropSome(Stream<Message>& stream);
  // Ends both sides by themselves, without the link.
  void BreakHere(SessionId session, std::string_view why);

  Context& context_;
  std::deque<Connection> connections_;
  uint32_t coordinator_life_ = 0;  // 0: none lives
  // Per worker: towards it (0) and away from it (1).
  std::array<std::array<int64_t, 2>, kWorkers> cut_until_ = {};
  std::array<int64_t, kWorkers> cut_since_ = {};
  int64_t stalled_since_ = 0;
  int64_t stalled_until_ = 0;
};

}  // namespace ringmaster::simulator

#endif  // RINGMASTER_TESTS_SIMULATOR_SESSION_LINKS_H_
