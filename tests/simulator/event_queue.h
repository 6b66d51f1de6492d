// EventQueue: what is still to happen in a simulated cluster, as a binary heap
// of small plain events.
//
// Events of the same time come out in the order in which they were put in, so
// that a run is a function of its seed. Thread-compatible.
#ifndef RINGMASTER_TESTS_SIMULATOR_EVENT_QUEUE_H_
#define RINGMASTER_TESTS_SIMULATOR_EVENT_QUEUE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ringmaster::simulator {

// The frames that workers send one another on the ring.
enum class FrameKind : uint8_t {
  kConnect,  // asks the next rank to accept this one
  kAccept,
  kState,    // the training state, for newcomers: `step` and its hash
  kPartial,  // the sum of the contributions of all ranks up to this one
  kTotal,    // the reduced buckets
  kRecord,   // the commit record of rank `origin`
  kClosed,   // the connection is closed; `step` 1: as agreed, `value`: how
  // With parameter servers:
  kPull,     // asks for the parameters as of the resume step
  kPulled,   // their hash
  kPush,     // a worker's contribution to `step`
  kUpdated,  // the sum of all
};

struct Frame {
  uint64_t value = 0;
  int32_t generation = 0;
  int32_t step = 0;
  FrameKind kind = FrameKind::kConnect;
  int8_t origin = 0;
  bool wants_stop = false;
  bool wants_drain = false;
  bool wants_leave = false;
};

enum class EventKind : uint8_t {
  kToWorker,       // a message of connection `version` arrives
  kToCoordinator,  // the same, the other way
  kPost,           // the worker's own threads tell its agent something
  kWorkerTimer,
  kTrainerTimer,  // `detail`: which one; `version`: of which run
  kFrame,
  kCoordinatorTimer,
  kJournalWritten,
  kJournalAnswer,
  kJournalWorks,
  kWorkerStart,
  kCoordinatorStart,
  kTwinEnd,
  kDrainEnd,     // an operator lifts the drain of worker `slot`
  kOutOfMemory,  // the kernel kills process `version` of worker `slot`
  kSessionHeal,  // the link to worker `slot` may be whole again
  kSessionDead,  // keepalive has given connections of the link up
  kPeerHeal,     // the link `from` -> `slot` may be whole again
  kPeerSilent,   // probes of the link between `from` and `slot` are in vain
  kProbeEnd,     // worker `slot` has probed its peers; `version`: how often
  kFault,        // `detail`: the fault's index
  kSubmit,       // a user submits a job
  kUserAction,   // `detail`: which one of the plan
  kResumeAll,    // users resume what they have suspended
  kCalm,         // no fault comes any more
  kWatch,        // time to check whether the job makes progress
};

struct SimEvent {
  int64_t time = 0;  // nanoseconds
  uint64_t sequence = 0;
  uint32_t version = 0;
  EventKind kind = EventKind::kWatch;
  int8_t slot = -1;  // the worker that it happens to
  int8_t from = -1;
  uint8_t detail = 0;
  Frame frame;
};

class EventQueue {
 public:
  EventQueue() { heap_.reserve(512); }

  void Push(SimEvent event) {
    event.sequence = ++last_sequence_;
    heap_.push_back(event);
    std::push_heap(heap_.begin(), heap_.end(), IsLater);
  }
  // Requires !empty().
  SimEvent Pop() {
    std::pop_heap(heap_.begin(), heap_.end(), IsLater);
    const SimEvent event = heap_.back();
    heap_.pop_back();
    return event;
  }
  bool empty() const { return heap_.empty(); }

 private:
  static bool IsLater(const SimEvent& a, const SimEvent& b) {
    return a.time != b.time ? a.time > b.time : a.sequence > b.sequence;
  }

  std::vector<SimEvent> heap_;
  uint64_t last_sequence_ = 0;
};

}  // namespace ringmaster::simulator

#endif  // RINGMASTER_TESTS_SIMULATOR_EVENT_QUEUE_H_
