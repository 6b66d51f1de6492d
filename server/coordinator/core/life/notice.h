// Notices: news of training that users want to see: texts that the model wrote,
// checkpoints, samples that were left out.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_NOTICE_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_NOTICE_H_

#include "server/coordinator/core/state/event.h"
#include "server/coordinator/core/state/turn.h"

namespace ringmaster::coordinator {

// Publishes `notice` as an event of the job, and keeps its sample, or the step
// of its checkpoint. A notice of another generation is ignored. Requires a kind
// that this build knows.
void OnNotice(Turn& turn, const Worker& worker, const v1::Notice& notice);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_LIFE_NOTICE_H_
