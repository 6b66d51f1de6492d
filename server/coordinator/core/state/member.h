// A rank of a job's generation, and what it has reported. Thread-safety:
// thread-compatible; values.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_STATE_MEMBER_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_STATE_MEMBER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/clock/monotonic_time.h"
#include "ringmaster/v1/data_identity.pb.h"
#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/types.h"

namespace ringmaster::coordinator {

struct PreparedAnswer {
  uint64_t plan_hash = 0;
  uint64_t data_fingerprint = 0;
  std::string summary;
  v1::DataIdentity data = {};
};

struct HaltedAnswer {
  int64_t applied_step = 0;
  int64_t complete_step = 0;
  // Assumed rather than reported: it came back without a generation, or has not
  // heard of one yet, so it holds no step.
  bool is_blank = false;
  // The generation in which it stood there; 0: it has not said.
  int64_t generation = 0;
  // The shards of the parameters that it holds, each once.
  std::vector<HeldShard> shards = {};
  // Copies that it has beyond its part in the generation and has not updated
  // since that began: it gives them to others, or keeps them until others have
  // theirs. They count for a shard of which there is no other copy.
  std::vector<HeldShard> given_shards = {};
  // In a job of commands its command goes on with those of however many members
  // are left.
  bool can_go_on = false;
};

struct FinishedAnswer {
  int64_t step = 0;
  uint64_t parameters_hash = 0;
  bool is_stopped = false;
};

// A rank of a job's newest generation, and what it has reported in it.
struct Member {
  MemberIdentity identity;
  // No longer part of the job. Stays in the table until the next generation, so
  // that ranks keep their place.
  bool is_lost = false;
  // Once it is lost: its last sign of life, and what ended it ("its stream
  // broke: reset by peer").
  MonotonicTime last_sign;
  std::string loss;
  // The generation in which it joined the job: what it reports about earlier
  // ones belongs to an earlier membership that is over.
  int64_t since = 0;
  // It joined the generation without the state of its resume step, which a
  // survivor copies to it.
  bool is_newcomer = false;
  // The step it last reported as applied.
  int64_t step = 0;
  // When it last made progress in this generation, or sent its first beat in
  // it.
  std::optional<MonotonicTime> last_progress;
  // The rank that it waited for most in collectives, as of its last beat; -1:
  // none.
  int awaited_rank = -1;
  double awaited_ratio = 0;
  // The figures that it last reported.
  std::shared_ptr<const v1::RankFigures> rank_figures;
  // Why its latest checkpoint in this generation could not be written; empty if it
  // was. The newest one that it wrote.
  std::string checkpoint_error;
  int64_t written_step = 0;
  std::optional<PreparedAnswer> prepared;
  std::optional<HaltedAnswer> halted;
  std::optional<FinishedAnswer> finished;
};

// A member that was given up, but whose process may live and hold the job's
// newest steps.
struct AbsentMember {
  // As it was when it was lost.
  Member member;
  // The job's generation then.
  int64_t generation = 0;
  MonotonicTime lost_at;
  // It is back, and has said what it holds.
  std::optional<HaltedAnswer> answer;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_STATE_MEMBER_H_
