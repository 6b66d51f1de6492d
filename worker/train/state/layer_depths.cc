#include "worker/train/state/layer_depths.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace ringmaster {
namespace {

bool IsNumber(absl::string_view part) {
  return !part.empty() && std::ranges::all_of(part, [](unsigned char letter) {
    return absl::ascii_isdigit(letter);
  });
}

// "hidden.1" of "hidden.1.weight"; "" if there is no number.
std::string LayerOf(const std::string& name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '.');
  const auto number = std::ranges::find_if(parts, IsNumber);
  if (number == parts.end()) return "";
  return absl::StrJoin(parts.begin(), number + 1, ".");
}

}  // namespace

std::vector<int> LayerDepths(absl::Span<const PlannedTensor> tensors) {
  std::vector<int> depths;
  std::string layer;
  int depth = 0;
  for (const PlannedTensor& tensor : tensors) {
    // Not trained, and not in its layer's place.
    if (tensor.spec.tracking_rate != 0) {
      depths.push_back(0);
      continue;
    }
    std::string next = LayerOf(tensor.spec.name);
    if (next != layer) ++depth;
    layer = std::move(next);
    depths.push_back(depth);
  }
  return depths;
}

}  // namespace ringmaster
