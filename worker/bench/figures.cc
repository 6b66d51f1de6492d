#include "worker/bench/figures.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

constexpr int64_t kMinBytes = 8;  // one element of any type
constexpr int64_t kMaxBytes = int64_t{64} << 30;

absl::Status SizeError(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" ", why,
                   "; write one size (1M) or the first and the last (4K:256M), "
                   "in bytes, K, M or G"));
}

}  // namespace

absl::StatusOr<int64_t> ParseSize(std::string_view size) {
  const absl::string_view text(size.data(), size.size());
  int64_t unit = 1;
  absl::string_view digits = text;
  if (!digits.empty()) {
    switch (digits.back()) {
      case 'K':
        unit = int64_t{1} << 10;
        break;
      case 'M':
        unit = int64_t{1} << 20;
        break;
      case 'G':
        unit = int64_t{1} << 30;
        break;
      default:
        break;
    }
  }
  if (unit > 1) digits.remove_suffix(1);
  int64_t number = 0;
  const bool has_digits_only =
      !digits.empty() &&
      digits.find_first_not_of("0123456789") == absl::string_view::npos;
  if (!has_digits_only || !absl::SimpleAtoi(digits, &number))
    return SizeError(text, "is no size");
  if (number > kMaxBytes / unit || number * unit < kMinBytes)
    return SizeError(text, "is not from 8 bytes to 64G");
  return number * unit;
}

absl::StatusOr<std::vector<int64_t>> ParseSizes(std::string_view text,
                                                int step) {
  RM_CHECK(step >= 2, "a step makes sizes larger");
  const size_t colon = text.find(':');
  ASSIGN_OR_RETURN(const int64_t first, ParseSize(text.substr(0, colon)));
  int64_t last = first;
  if (colon != std::string_view::npos) {
    ASSIGN_OR_RETURN(last, ParseSize(text.substr(colon + 1)));
  }
  if (last < first) {
    return SizeError(absl::string_view(text.data(), text.size()),
                     "ends before it begins");
  }
  std::vector<int64_t> sizes;
  for (int64_t size = first;; size *= step) {
    sizes.push_back(size);
    if (size > last / step) break;
  }
  return sizes;
}

double Percentile(std::span<const double> ascending, double share) {
  RM_CHECK(!ascending.empty(), "nothing has no percentile");
  const double rank = std::ceil(share * static_cast<double>(ascending.size()));
  const auto index = static_cast<size_t>(std::max(rank, 1.0)) - 1;
  return ascending[std::min(index, ascending.size() - 1)];
}

double AlgorithmBandwidth(int64_t bytes, double seconds) {
  return static_cast<double>(bytes) / seconds;
}

double BusBandwidth(int64_t bytes, double seconds, int ranks) {
  return AlgorithmBandwidth(bytes, seconds) * 2 * (ranks - 1) / ranks;
}

double MemoryBusLimit(int ranks, double memory_bandwidth) {
  return memory_bandwidth * (ranks - 1) / ranks / ranks;
}

double LinkBusLimit(int ranks, int hosts, double link_bandwidth) {
  return link_bandwidth * (ranks - 1) / ranks * hosts / (hosts - 1);
}

}  // namespace ringmaster
