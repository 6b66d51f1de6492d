// The journal's answers: actions that waited for a record, and actions after a
// failure.
//
// While the journal fails, nothing that needs a record begins: no job is
// accepted, no generation is formed. Decisions already made (verdicts, the ends
// of jobs) are set aside, and handed over in order once the journal works
// again.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_JOURNAL_ANSWERS_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_JOURNAL_ANSWERS_H_

#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

void OnPersisted(Turn& turn, const Persisted& persisted);
void OnPersistFailed(Turn& turn, const PersistFailed& failed);
void OnJournalWorks(Turn& turn);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_JOURNAL_ANSWERS_H_
