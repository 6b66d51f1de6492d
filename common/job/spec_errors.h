// SpecErrors collects the errors of a job's spec, so that its author sees all
// of them at once.
//
// Thread-compatible.
#ifndef RINGMASTER_COMMON_JOB_SPEC_ERRORS_H_
#define RINGMASTER_COMMON_JOB_SPEC_ERRORS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace ringmaster {

class SpecErrors {
 public:
  void Add(std::string text) { texts_.push_back(std::move(text)); }

  [[nodiscard]] bool empty() const { return texts_.empty(); }

  // INVALID_ARGUMENT/INVALID_JOB_SPEC with the first ten.
  [[nodiscard]] absl::Status ToStatus() const;

 private:
  std::vector<std::string> texts_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_JOB_SPEC_ERRORS_H_
