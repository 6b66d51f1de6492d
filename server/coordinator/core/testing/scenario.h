// Scenario: a core driven by lines of text, with simulated workers, journal and
// clock.
//
// Words are separated by spaces; key=value and key="several words" are options.
// Worker names may be given as a list.
//   config [failure_budget=D] [progress_cap=D] [stop_budget=D] [state_wait=D]
//         [overtake_time=D] [max_ended_jobs=N] [join_settle=D] [max_rollbacks=N]
//         [quarantine_faults=N] [takes_over=yes] [encrypts=yes]
//                                     a new coordinator without a past;
//                                     state_wait is 0 unless it is given
//   events all|notable                show INFO events too; default notable
//   join NAMES [host=H [container=C]] [role=ps] [protocol=N] [rehearses=yes]
//        [probes=yes] [records=yes]
//         [key=T] [encrypts=yes] [commands=no] [labels=K:V,K:V]
//         [memory=N]
//                                     hello of new process lives; its resume key
//   hello NAMES [incarnation=N] [generation=G [by=N]] [attempt=N] [step=S]
//         [key=T] [protocol=N] [protocol_max=N] [encrypts=yes] [session=old] [name=""] [job=ID rank=R of=N [of_servers=N]
//         [after=S] [min=N] [max=N] [SHARDING] [placed=P/B,P/B]]
//                                     hello of the same life, or as told
//   beat NAMES [step=S] [seq=N] [wait=R] [disk=BYTES] [phase=P] [loss=X]
//         [step_duration=D]
//   prepared NAMES [plan=N] [data=N] [summary=T]
//   halted NAMES applied=S [complete=S] [shards=I@S,I@S] [can_go_on=yes]
//   suspect NAMES peer=R [detail=T] [unreached=yes|no] [other_state=yes]
//           [how=no_answer|closed|refused] [step=S]
//   probed NAMES [reached=R,R] [unreached=R,R [how=H]] [number=N]
//                                     default: the last probe's
//   finished NAMES [step=S] [hash=N] [stopped=yes]
//                                     default: the job's last step
//   failed NAMES [exit=N] [message=T] [preparing=yes]
//   leaving NAMES [done=yes] [step=S] [reason=T] [patience=D]
//   notice NAMES kind=K [step=S] [message=T] [prompt=T] [text=T] [duration=D]
//          [snapshot=G]
//                                     K: 1 sample, 2 checkpoint written,
//                                     3 failed, 4 loaded, 5 figures failed,
//                                     6 samples skipped
//   heard NAMES [step=S] [awaited=R]  another message; with these, a collective
//                                     in that step that waits for that rank
//   break NAMES [detail=T] [violation=yes]
//                                     the stream breaks, or is closed for a
//                                     message that cannot be
//       all of these take gen=G; default: the last assignment's
//   submit NAME [min=N] [max=N] [steps=N] [settle=D] [request_id=T]
//          [checkpoints=yes|unread] [on_error=fail] [benchmark=yes] [commands=yes]
//          [priority=N] [queue=T] [require=K:V,K:V] [spread=host] [memory=N] [SHARDING]
//       SHARDING: [servers=N] [shards=N] [lanes=N] [replicas=N]
//                 [consistency=bsp|...]
//   cancel JOB [reason=T]
//   priority JOB to=N [reason=T]
//   suspend|resume JOB [reason=T]
//   cordon|drain|uncordon WORKER|HOST [reason=T] [by=D]
//   queues [are=NAME:QUOTA[:MOST[:WEIGHT[:JOBS[:A+B]]]],...] [half_life=D]
//          [from_file=yes]
//   change OBJECT [action=T]
//       all of these, hello and join take user=NAME [role=R] [from=HOST]: the
//       caller; one whose role is submitter owns only its own jobs
//   audit                             its entries
//   journal auto|hold                 answer records at once (the default) or
//                                     keep them
//   journal ok|fail [why=T] [only=N]  answer what was kept, or the first N
//   journal works
//   advance D | tick                  time passes; each deadline is met
//   stall D                           time passes, and nobody looks
//   gathered JOB incident=N rank=R    the flight record: who held others up
//   journal copy|restore|remove       of the whole: makes a copy, goes back
//                                     to it, or to none
//   restart                           a new coordinator from the journal;
//                                     incarnations count from 1
//   shutdown
//   show                              the state
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_TESTING_SCENARIO_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_TESTING_SCENARIO_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/clock/monotonic_time.h"
#include "common/protocol/labels.h"
#include "server/coordinator/core/core.h"

namespace ringmaster::coordinator {

// The state in which an event finds its subject: a job's state ("RUNNING",
// "forming", "ending", "reattaching", "rebuilding"), that of a worker outside
// of jobs ("IDLE", "DRAINING"), or "none".
using Situation = std::string;
// Pairs of a situation and an event's type.
using Coverage = std::set<std::pair<Situation, std::string>>;

class Scenario {
 public:
  Scenario();

  // Runs one command and returns what the coordinator did, a line each; lines
  // that begin with "error:" mean that the command itself is wrong.
  std::string Run(const std::string& command);

  const Coverage& coverage() const { return coverage_; }

 private:
  // A parsed command.
  struct Words;
  // The worker's process as it knows itself.
  struct Process {
    uint64_t incarnation = 0;
    SessionId session = 0;
    int64_t generation = 0;
    uint64_t formed_by = 0;
    std::string host;
    std::string container;
    int64_t pid = 0;
    v1::Role role = v1::ROLE_WORKER;
    bool can_rehearse = false;
    bool can_probe = false;
    bool records = false;  // its collectives
    uint32_t probe = 0;    // the number of the last one
    bool runs_commands = true;
    Labels labels;
    int64_t memory_bytes = 0;
    std::string resume_key;
  };

  std::string Dispatch(const Words& words);
  std::string Configure(const Words& words);
  std::string Hello(const Words& words, bool is_new_life);
  std::string Say(const Words& words);
  std::string Submit(const Words& words);
  std::string AnswerJournal(const Words& words);
  std::string Advance(absl::Duration duration);
  std::string Restart();

  // Steps the core and performs its actions.
  std::string Feed(Event event);
  std::string Perform(const Action& action);
  std::string Answer(bool is_ok, const std::string& why, size_t count);
  Situation SituationOf(const EventBody& body) const;
  std::string NameOfSession(SessionId session) const;

  Config config_;
  CoordinatorCore core_;
  MonotonicTime now_;
  Coverage coverage_;
  bool shows_all_events_ = false;
  bool answers_at_once_ = true;
  // Persist actions that were not answered, and the journal itself.
  std::vector<Persist> unanswered_;
  std::vector<JournalRecord> journal_;
  std::vector<JournalRecord> journal_copy_;
  std::map<std::string, Process> processes_;
  std::map<SessionId, std::string> session_names_;
  uint64_t last_incarnation_ = 0;
  // The coordinator's: one more with each.
  uint64_t coordinator_incarnation_ = 1;
  SessionId last_session_ = 0;
  RequestToken last_request_ = 0;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_TESTING_SCENARIO_H_
