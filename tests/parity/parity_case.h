// A parity case: a model with parameters and batches, run as PyTorch ran it.
//
// tests/parity/cases.py says what a case file holds, and makes them.
#ifndef RINGMASTER_TESTS_PARITY_PARITY_CASE_H_
#define RINGMASTER_TESTS_PARITY_PARITY_CASE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tensor/shape.h"

namespace ringmaster::parity {

struct Result {
  Shape shape;
  std::vector<double> elems;
};
// By the names of cases.py: "loss", "grad/NAME", "losses", "after/NAME"; and
// "logits" of a model that continues tokens.
using Results = std::map<std::string, Result>;

enum class Arithmetic { kFloat64, kFloat32, kBFloat16 };

// Runs the case in the file at `path`: one pass with all gradients, then the
// optimizer's steps from the same parameters.
[[nodiscard]] absl::StatusOr<Results> RunCase(const std::string& path,
                                              Arithmetic arithmetic);

}  // namespace ringmaster::parity

#endif  // RINGMASTER_TESTS_PARITY_PARITY_CASE_H_
