// SpecErrors collects what is wrong with a job's spec, so that its author
// learns of everything at once. And the checks that many fields share.
//
// Thread-compatible.
#ifndef RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SPEC_ERRORS_H_
#define RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SPEC_ERRORS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace ringmaster::coordinator {

class SpecErrors {
 public:
  void Add(std::string text) { texts_.push_back(std::move(text)); }

  // "train.steps must be at least 1, got 0".
  void RequireRange(const std::string& field, int64_t value, int64_t low,
                    int64_t high);
  // "train.x must be <names>, got <number>", unless this build knows the
  // enumeration's value.
  void RequireKnown(bool is_known, const std::string& field, const char* names,
                    int number);
  // "train.x must be <bounds>, got <value>", unless it `holds`.
  void RequireThat(bool holds, const std::string& field, const char* bounds,
                   double value);
  // The next three also refuse NaN and infinity.
  void RequireAboveZero(const std::string& field, double value);
  void RequireNotNegative(const std::string& field, double value);
  // In [0, 1).
  void RequireBelowOne(const std::string& field, double value);
  // A path that a program can open; `what` it names, as in "a file".
  void RequirePath(const std::string& field, const std::string& path,
                   const char* what);
  // The same for one that may be left out.
  void RequirePathOrNone(const std::string& field, const std::string& path);

  [[nodiscard]] bool empty() const { return texts_.empty(); }
  // Takes over what `other` has collected.
  void Take(const SpecErrors& other);

  // INVALID_ARGUMENT/INVALID_JOB_SPEC with the first ten.
  [[nodiscard]] absl::Status ToStatus() const;

 private:
  std::vector<std::string> texts_;
};

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_RPC_JOB_SPEC_ERRORS_H_
