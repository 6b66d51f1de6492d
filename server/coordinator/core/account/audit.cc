#include "server/coordinator/core/account/audit.h"

#include <utility>

#include "server/coordinator/core/state/retention.h"

namespace ringmaster::coordinator {

void Audit(Turn& turn, AuditedRecord entry) {
  if (entry.caller == Caller()) return;
  entry.time = turn.time;
  turn.Persist(std::move(entry));
}

void OnAudited(State& state, const AuditedRecord& entry) {
  state.audit.push_back(entry);
  if (state.audit.size() > kMaxAudited) state.audit.pop_front();
}

}  // namespace ringmaster::coordinator
