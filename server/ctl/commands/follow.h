// What the commands that list and follow something have in common.
#ifndef RINGMASTER_SERVER_CTL_COMMANDS_FOLLOW_H_
#define RINGMASTER_SERVER_CTL_COMMANDS_FOLLOW_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/ctl/client/client.h"

namespace ringmaster::ctl {

// How often they ask for news.
inline constexpr absl::Duration kFollowInterval = absl::Milliseconds(500);

// Reads --since: a duration before `now`, an RFC 3339 time, or "" for always.
//   INVALID_ARGUMENT  it is neither
[[nodiscard]] absl::StatusOr<absl::Time> ParseSince(const std::string& text,
                                                    absl::Time now);

// A job that has ended has no more news once those have been shown that came
// before this answer. One that the coordinator has forgotten ended long ago.
[[nodiscard]] absl::StatusOr<bool> HasEndedAt(Client& client,
                                              const std::string& job_id);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_COMMANDS_FOLLOW_H_
