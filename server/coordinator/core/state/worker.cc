#include "server/coordinator/core/state/worker.h"

namespace ringmaster::coordinator {

bool IsLeaving(const Worker& worker) {
  return worker.state == v1::WORKER_STATE_DRAINING || worker.is_let_go ||
         worker.has_failed;
}

}  // namespace ringmaster::coordinator
