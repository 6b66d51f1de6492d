// LeastSteps says how far all shards of one lane, or of several, have got.
#ifndef RINGMASTER_WORKER_PARAMETER_SERVER_LEAST_STEPS_H_
#define RINGMASTER_WORKER_PARAMETER_SERVER_LEAST_STEPS_H_

#include <algorithm>
#include <cstdint>
#include <optional>

namespace ringmaster {

// The newest step that all of them have made: of those that are primary here,
// and of the others; nullopt: there are none.
struct LeastSteps {
  std::optional<int64_t> of_primaries = std::nullopt;
  std::optional<int64_t> of_copies = std::nullopt;

  void Add(const LeastSteps& others) {
    const auto add = [](std::optional<int64_t>& least,
                        std::optional<int64_t> other) {
      if (other.has_value()) least = std::min(least.value_or(*other), *other);
    };
    add(of_primaries, others.of_primaries);
    add(of_copies, others.of_copies);
  }

  // The step that a host has completed: that of its primaries, or of its copies
  // if it has only these; `resume_step` if it has nothing.
  [[nodiscard]] int64_t CompleteStep(int64_t resume_step) const {
    return of_primaries.value_or(of_copies.value_or(resume_step));
  }
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_PARAMETER_SERVER_LEAST_STEPS_H_
