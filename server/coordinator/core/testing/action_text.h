// Actions and states as short lines, for scenarios and test failures.
#ifndef RINGMASTER_SERVER_COORDINATOR_CORE_TESTING_ACTION_TEXT_H_
#define RINGMASTER_SERVER_COORDINATOR_CORE_TESTING_ACTION_TEXT_H_

#include <functional>
#include <string>

#include "server/coordinator/core/state/action.h"
#include "server/coordinator/core/state/state.h"

namespace ringmaster::coordinator {

// One line without its end. `session_name` names a session.
[[nodiscard]] std::string ToText(
    const Action& action,
    const std::function<std::string(SessionId)>& session_name);

// "b (rank 1) at step 7: REFORM, code 138; STREAM_BROKEN by coordinator".
[[nodiscard]] std::string ToText(const v1::Verdict& verdict);

// One line a job and one a worker.
[[nodiscard]] std::string ToText(const State& state);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_CORE_TESTING_ACTION_TEXT_H_
