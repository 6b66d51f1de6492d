// TestPattern: inputs of an all-reduce whose result is known exactly, in every
// dtype, on every wire and in every order of additions.
//
// All values and all partial sums are integers of at most 256, which even
// bfloat16 holds exactly; hence the limit on ranks. Ranks have different
// values, and so do neighbouring elements, so that an element that is added
// twice, left out or misplaced shows.
// Immutable after construction.
#ifndef RINGMASTER_WORKER_BENCH_TEST_PATTERN_H_
#define RINGMASTER_WORKER_BENCH_TEST_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/tensor/dtype.h"
#include "common/reduction/reduction.h"

namespace ringmaster {

class TestPattern {
 public:
  static constexpr int kMaxRanks = 128;

  // Makes the pattern of `rank` of `ranks` (1 to kMaxRanks). Not for uint8.
  TestPattern(DType dtype, Reduction reduction, int ranks, int rank);

  // Writes this rank's inputs from the place `first` on. Another first element
  // makes other inputs and results: if each all-reduce begins elsewhere,
  // leftovers of an earlier one show.
  void Fill(std::byte* elements, int64_t count, int64_t first = 0) const;

  // Returns the number of elements that differ from the result of inputs from
  // `first` on.
  [[nodiscard]] int64_t CountWrong(const std::byte* elements, int64_t count,
                                   int64_t first = 0) const;

 private:
  const int64_t element_bytes_;
  // One period each.
  std::vector<std::byte> input_;
  std::vector<std::byte> result_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_BENCH_TEST_PATTERN_H_
