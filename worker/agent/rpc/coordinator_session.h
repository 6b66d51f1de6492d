// CoordinatorSession: one try at a session with the coordinator, from the hello
// to the end of its stream.
//
// Reports, through the callback given to Open: at most one SessionUp, first;
// then what the coordinator says, in order; and exactly one SessionDown, last.
// A coordinator that does not keep to this (or sends nonsense) gets the session
// cancelled, and SessionDown carries the violation. Waiting for the welcome has
// no limit here: the agent's core has one, and calls Cancel.
// Thread-safety: all methods from one thread. The callback runs on gRPC's
// threads, one call at a time; it must not block, nor call methods.
// Ownership: the destructor cancels the stream and waits until it is over.
#ifndef RINGMASTER_WORKER_AGENT_RPC_COORDINATOR_SESSION_H_
#define RINGMASTER_WORKER_AGENT_RPC_COORDINATOR_SESSION_H_

#include <functional>
#include <memory>
#include <string>

#include "worker/agent/core/agent_event.h"

namespace grpc {
class ChannelCredentials;
}  // namespace grpc

namespace ringmaster {

namespace v1 {
class SessionRequest;
}  // namespace v1

class CoordinatorSession {
 public:
  using EventCallback = std::function<void(agent::Event)>;

  // Connects to `coordinator` and says `hello`; returns at once. Each session
  // has a connection of its own: the address is resolved anew, and no backoff
  // of an earlier connection delays this one. `peer`, unless it is empty: the
  // one of its addresses to connect to, as in SessionUp.
  static std::unique_ptr<CoordinatorSession> Open(
      const std::string& coordinator, const std::string& peer,
      const std::shared_ptr<grpc::ChannelCredentials>& credentials,
      const v1::SessionRequest& hello, EventCallback on_event);
  ~CoordinatorSession();
  CoordinatorSession(const CoordinatorSession&) = delete;
  CoordinatorSession& operator=(const CoordinatorSession&) = delete;

  // Queues `message`. Once the stream is over it is dropped.
  void Send(v1::SessionRequest message);
  // As Send, but dropped while kMaxQueued messages wait: a slow connection
  // gets fewer beats.
  void SendBeat(v1::SessionRequest message);
  static constexpr int kMaxQueued = 16;

  // Tells the coordinator, after all that was sent, that no more follows; it
  // ends the stream then.
  void Finish();
  // Ends the stream now.
  void Cancel();

 private:
  class Stream;
  explicit CoordinatorSession(std::unique_ptr<Stream> stream);

  std::unique_ptr<Stream> stream_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_AGENT_RPC_COORDINATOR_SESSION_H_
