#include "tests/gpu/rows/bench_row.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace ringmaster {
namespace {

nlohmann::json OrNull(const std::optional<double>& value) {
  return value.has_value() ? nlohmann::json(*value) : nlohmann::json();
}

}  // namespace

std::string ToJson(const BenchRow& row) {
  return nlohmann::json{
      {"what", row.what},           {"unit", row.unit},
      {"ours", OrNull(row.ours)},   {"peer", OrNull(row.peer)},
      {"peer_name", row.peer_name}, {"note", row.note}}
      .dump();
}

void PrintRow(const BenchRow& row) { std::cout << ToJson(row) << std::endl; }

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle]
                                : (values[middle - 1] + values[middle]) / 2;
}

std::string BytesText(int64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB"};
  size_t unit = 0;
  while (unit + 1 < std::size(units) && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return absl::StrCat(bytes, " ", units[unit]);
}

}  // namespace ringmaster
