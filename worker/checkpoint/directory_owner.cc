#include "worker/checkpoint/directory_owner.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/status/status_macros.h"
#include "worker/checkpoint/durable_file.h"
#include "worker/checkpoint/first_text.h"

namespace ringmaster {
namespace {

constexpr char kOthersUrl[] = "ringmaster.v1/others_directory";

// Of the name in a job's id: whatever else a file holds is not printed.
bool IsOfName(char c) {
  return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
}

}  // namespace

std::string_view JobNameOf(std::string_view job_id) {
  const size_t dash = job_id.rfind('-');
  if (dash == std::string_view::npos || dash == 0) return "";
  const std::string_view number = job_id.substr(dash + 1);
  const bool is_number =
      !number.empty() && std::all_of(number.begin(), number.end(), [](char c) {
        return absl::ascii_isdigit(c);
      });
  const std::string_view name = job_id.substr(0, dash);
  return is_number && std::all_of(name.begin(), name.end(), IsOfName) ? name
                                                                      : "";
}

bool IsOthersDirectory(const absl::Status& status) {
  return status.GetPayload(kOthersUrl).has_value();
}

absl::Status ClaimDirectory(const std::string& directory,
                            std::string_view job_id) {
  const std::string path = absl::StrCat(directory, "/.owner");
  const std::string id(job_id);
  RETURN_IF_ERROR(CreateDirectories(directory));
  ASSIGN_OR_RETURN(std::string owner, ReadFirstText(path));
  if (owner.empty()) {
    ASSIGN_OR_RETURN(owner, KeepFirstText(path, id + "\n", [] {
                       return FAIL_POINT("checkpoint.owner");
                     }));
  }
  absl::StripTrailingAsciiWhitespace(&owner);
  const std::string name(JobNameOf(owner));
  if (name.empty()) {
    return absl::DataLossError(
        absl::StrCat(path, " holds no job's id; remove it"));
  }
  if (owner == id || name == JobNameOf(job_id)) return absl::OkStatus();
  absl::Status status = absl::FailedPreconditionError(absl::StrCat(
      directory, " belongs to job ", owner, ", which began it, and not to ", id,
      ": name the job ", name,
      " to go on with its checkpoints, give another directory, or remove ",
      path, " to hand it over"));
  status.SetPayload(kOthersUrl, absl::Cord());
  return status;
}

}  // namespace ringmaster
