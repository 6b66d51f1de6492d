// The environment variables that a rank's command gets from Ringmaster: those
// of torchrun.
#ifndef RINGMASTER_COMMON_JOB_RANK_VARIABLES_H_
#define RINGMASTER_COMMON_JOB_RANK_VARIABLES_H_

#include <array>
#include <string_view>

namespace ringmaster {

inline constexpr std::array<std::string_view, 14> kRankVariables = {
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_NAME",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
    "TORCHELASTIC_RUN_ID"};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_JOB_RANK_VARIABLES_H_
