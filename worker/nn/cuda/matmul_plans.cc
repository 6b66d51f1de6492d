#include "worker/nn/cuda/matmul_plans.h"

#include <charconv>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/checksum/crc32c.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

constexpr absl::string_view kTitle = "ringmaster matmul plans 1";
constexpr absl::string_view kGpu = "gpu ";
constexpr absl::string_view kLibrary = "library ";
constexpr absl::string_view kPlan = "plan ";
constexpr absl::string_view kEnd = "end ";

// Parses a word of hexadecimal digits as Hex writes it, in lower case.
template <typename Word>
bool ParseHex(absl::string_view text, Word* word) {
  if (text.size() != 2 * sizeof(Word)) return false;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), *word, 16);
  return error == std::errc() && end == text.data() + text.size();
}

std::string Hex(uint64_t word) {
  return absl::StrCat(absl::Hex(word, absl::kZeroPad16));
}
std::string Hex(uint32_t word) {
  return absl::StrCat(absl::Hex(word, absl::kZeroPad8));
}

absl::Status Damaged(size_t line, absl::string_view reason) {
  return absl::DataLossError(absl::StrCat("line ", line, " ", reason));
}

// "plan BYTES WORD... PRODUCT"
bool ParsePlan(absl::string_view line, MatmulPlans* plans) {
  MatmulAlgorithm algorithm;
  const std::vector<absl::string_view> parts =
      absl::StrSplit(line, absl::MaxSplits(' ', 1 + algorithm.words.size()));
  if (parts.size() != 2 + algorithm.words.size()) return false;
  if (!absl::SimpleAtoi(parts[0], &algorithm.workspace_bytes) ||
      algorithm.workspace_bytes < 0) {
    return false;
  }
  for (size_t i = 0; i < algorithm.words.size(); ++i)
    if (!ParseHex(parts[1 + i], &algorithm.words[i])) return false;
  const absl::string_view product = parts.back();
  return !product.empty() &&
         plans->algorithms.emplace(std::string(product), algorithm).second;
}

// All lines but the last, which has been found to be right.
absl::StatusOr<MatmulPlans> ParseLines(absl::string_view text) {
  MatmulPlans plans;
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (number == 1) {
      if (line != kTitle)
        return Damaged(1, absl::StrCat("is not \"", kTitle, "\""));
    } else if (number == 2) {
      if (!absl::ConsumePrefix(&line, kGpu) || line.empty())
        return Damaged(2, "names no GPU");
      plans.gpu = std::string(line);
    } else if (number == 3) {
      if (!absl::ConsumePrefix(&line, kLibrary) ||
          !absl::SimpleAtoi(line, &plans.library_version)) {
        return Damaged(3, "has no version of the library");
      }
    } else if (!absl::ConsumePrefix(&line, kPlan) || !ParsePlan(line, &plans)) {
      return Damaged(number, "is no plan");
    }
  }
  if (number < 3) return Damaged(number, "is the last");
  return plans;
}

}  // namespace

std::string FormatMatmulPlans(const MatmulPlans& plans) {
  std::string text = absl::StrCat(kTitle, "\n", kGpu, plans.gpu, "\n", kLibrary,
                                  plans.library_version, "\n");
  for (const auto& [product, algorithm] : plans.algorithms) {
    absl::StrAppend(&text, kPlan, algorithm.workspace_bytes);
    for (uint64_t word : algorithm.words)
      absl::StrAppend(&text, " ", Hex(word));
    absl::StrAppend(&text, " ", product, "\n");
  }
  return absl::StrCat(text, kEnd, Hex(Crc32c(text)), "\n");
}

absl::StatusOr<MatmulPlans> ParseMatmulPlans(std::string_view whole) {
  const absl::string_view text(whole.data(), whole.size());
  const size_t last = text.rfind(absl::StrCat("\n", kEnd));
  if (last == absl::string_view::npos)
    return absl::DataLossError("it has no last line: it was cut off");
  uint32_t checksum = 0;
  absl::string_view end = text.substr(last + 1 + kEnd.size());
  if (!absl::ConsumeSuffix(&end, "\n") || !ParseHex(end, &checksum) ||
      checksum != Crc32c(whole.substr(0, last + 1))) {
    return absl::DataLossError("its last line is not its checksum");
  }
  return ParseLines(text.substr(0, last));
}

std::string MatmulPlansFileName(std::string_view gpu, int64_t library_version) {
  std::string name =
      absl::StrCat("matmul_", std::string(gpu), "_", library_version, ".txt");
  for (char& c : name)
    if (!absl::ascii_isalnum(c) && c != '.' && c != '-') c = '_';
  return name;
}

}  // namespace ringmaster
