// Jobs as a table, a row each.
//
// Pure: `now` is a parameter.
#ifndef RINGMASTER_SERVER_CTL_RENDER_JOB_TABLE_H_
#define RINGMASTER_SERVER_CTL_RENDER_JOB_TABLE_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "google/protobuf/repeated_field.h"
#include "ringmaster/v1/job.pb.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {

// The titles and a row for each of `jobs`; with `is_wide` also when each was
// submitted and began, and its request id.
[[nodiscard]] std::vector<std::string> JobTable(
    const google::protobuf::RepeatedPtrField<v1::Job>& jobs, bool is_wide,
    absl::Time now, const Style& style);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_RENDER_JOB_TABLE_H_
