#include "server/ctl/render/bench_view.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "server/ctl/render/text.h"
#include "worker/bench/figures.h"

namespace ringmaster::ctl {
namespace {

constexpr double kGiga = 1e9;
constexpr double kMicroseconds = 1e6;

// "float32", "float32/float16" where the second is on the wire.
std::string TypeText(const AllReduceBenchOptions& options) {
  std::string text(DTypeName(options.dtype));
  if (options.wire.has_value())
    text.append("/").append(DTypeName(*options.wire));
  return text;
}

double AlgorithmGigabytes(const AllReduceBenchRow& row) {
  return AlgorithmBandwidth(row.bytes, row.p50) / kGiga;
}

double BusGigabytes(const BenchSetting& setting, const AllReduceBenchRow& row) {
  return BusBandwidth(row.bytes, row.p50, setting.options.ranks) / kGiga;
}

double PercentOfLimit(const BenchSetting& setting,
                      const AllReduceBenchRow& row) {
  return 100 *
         MemoryBoundSeconds(row.bytes, setting.options.ranks,
                            setting.start.memory_bandwidth) /
         row.p50;
}

}  // namespace

std::vector<std::string> BenchHeadLines(const BenchSetting& setting) {
  const AllReduceBenchOptions& options = setting.options;
  return {
      absl::StrFormat("# all-reduce of %d processes; %s, %d cores",
                      options.ranks, Printable(setting.processor),
                      setting.cores),
      absl::StrFormat("# transport %s, algorithm %s, %d iterations at most "
                      "after %d to warm up",
                      TransportName(setting.start.transport),
                      AlgorithmName(options.algorithm), options.iterations,
                      options.warmup),
      absl::StrFormat("# memory: %.1f GB/s read and written while all ranks "
                      "copy; the limit is 2 * ranks * bytes over that,",
                      setting.start.memory_bandwidth / kGiga),
      "# and what fits in a cache may be beyond it; times are the slowest "
      "rank's",
      absl::StrFormat("#%11s %12s %16s %8s %11s %11s %9s %9s %7s %7s  %s",
                      "bytes", "count", "type", "redop", "p50", "p99", "algbw",
                      "busbw", "#wrong", "limit", "algorithm"),
      absl::StrFormat("#%11s %12s %16s %8s %11s %11s %9s %9s %7s %7s", "(B)",
                      "(elements)", "", "", "(us)", "(us)", "(GB/s)", "(GB/s)",
                      "", "(%)"),
  };
}

std::string BenchRowLine(const BenchSetting& setting,
                         const AllReduceBenchRow& row) {
  return absl::StrFormat(
      "%12d %12d %16s %8s %11.2f %11.2f %9.3f %9.3f %7d %7.1f  %s", row.bytes,
      row.count, TypeText(setting.options),
      ReductionName(setting.options.reduction), row.p50 * kMicroseconds,
      row.p99 * kMicroseconds, AlgorithmGigabytes(row),
      BusGigabytes(setting, row), row.wrong, PercentOfLimit(setting, row),
      AlgorithmName(row.algorithm));
}

std::string BenchJson(const BenchSetting& setting,
                      const std::vector<AllReduceBenchRow>& rows) {
  using Json = nlohmann::ordered_json;
  const AllReduceBenchOptions& options = setting.options;
  Json json;
  json["bench"] = "allreduce";
  json["processor"] = Printable(setting.processor);
  json["cores"] = setting.cores;
  json["ranks"] = options.ranks;
  json["transport"] = TransportName(setting.start.transport);
  json["algorithm"] = AlgorithmName(options.algorithm);
  json["type"] = std::string(DTypeName(options.dtype));
  json["wire"] = std::string(DTypeName(options.wire.value_or(options.dtype)));
  json["redop"] = ReductionName(options.reduction);
  json["warmup"] = options.warmup;
  json["memory_gb_per_s"] = setting.start.memory_bandwidth / kGiga;
  json["sizes"] = Json::array();
  for (const AllReduceBenchRow& row : rows) {
    Json size;
    size["bytes"] = row.bytes;
    size["count"] = row.count;
    size["iterations"] = row.iterations;
    size["p50_us"] = row.p50 * kMicroseconds;
    size["p99_us"] = row.p99 * kMicroseconds;
    size["algbw_gb_per_s"] = AlgorithmGigabytes(row);
    size["busbw_gb_per_s"] = BusGigabytes(setting, row);
    size["wrong"] = row.wrong;
    size["algorithm"] = AlgorithmName(row.algorithm);
    size["percent_of_limit"] = PercentOfLimit(setting, row);
    json["sizes"].push_back(std::move(size));
  }
  return absl::StrCat(json.dump(/*indent=*/2, ' ', /*ensure_ascii=*/false,
                                nlohmann::json::error_handler_t::replace),
                      "\n");
}

}  // namespace ringmaster::ctl
