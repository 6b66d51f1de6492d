// FillWindow makes the window of tokens that a model of fixed width sees of a
// text.
//
// Thread-safety: pure.
#ifndef RINGMASTER_WORKER_NN_CONTEXT_WINDOW_H_
#define RINGMASTER_WORKER_NN_CONTEXT_WINDOW_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace ringmaster {

// The place of the zeros in a window that is longer than the text.
enum class WindowPadding : bool { kBefore, kAfter };

// Fills `window` with the last tokens of `context`, as many as fit, and zeros.
// Returns the number of these tokens.
inline size_t FillWindow(absl::Span<const int32_t> context,
                         WindowPadding padding, absl::Span<int32_t> window) {
  const size_t count = std::min(context.size(), window.size());
  const size_t first =
      padding == WindowPadding::kBefore ? window.size() - count : 0;
  std::fill(window.begin(), window.end(), 0);
  std::copy(context.end() - static_cast<ptrdiff_t>(count), context.end(),
            window.begin() + static_cast<ptrdiff_t>(first));
  return count;
}

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_CONTEXT_WINDOW_H_
