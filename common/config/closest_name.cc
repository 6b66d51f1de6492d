#include "common/config/closest_name.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ringmaster {
namespace {

// One letter of three may be wrong, and never more than three.
int MaxDistance(std::string_view wrong) {
  return std::clamp(static_cast<int>(wrong.size()) / 3, 1, 3);
}

}  // namespace

int EditDistance(std::string_view a, std::string_view b) {
  std::vector<int> before_last(b.size() + 1);
  std::vector<int> last(b.size() + 1);
  std::vector<int> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::optional<std::string> ClosestName(std::string_view wrong,
                                       std::span<const std::string> names) {
  std::optional<std::string> closest;
  int closest_distance = MaxDistance(wrong) + 1;
  for (const std::string& name : names) {
    const int distance = EditDistance(wrong, name);
    if (distance < closest_distance) {
      closest_distance = distance;
      closest = name;
    }
  }
  return closest;
}

}  // namespace ringmaster
