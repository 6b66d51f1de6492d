#include "server/ctl/render/bench_view.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "server/ctl/render/text.h"
#include "worker/bench/bench_program.h"
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
  return 100 * BusBandwidth(row.bytes, row.p50, setting.options.ranks) /
         setting.start.bus_limit;
}

std::string PlaceText(const BenchSetting& setting) {
  return absl::StrJoin(
      setting.place, ", ", [](std::string* out, const auto& part) {
        absl::StrAppend(out, part.first, " ", Printable(part.second));
      });
}

}  // namespace

std::vector<std::string> BenchHeadLines(const BenchSetting& setting) {
  const AllReduceBenchOptions& options = setting.options;
  std::vector<std::string> lines = {
      absl::StrFormat("# all-reduce of %d %s; %s", options.ranks,
                      setting.ranks_are, PlaceText(setting)),
      absl::StrFormat("# transport %s, algorithm %s, %d iterations at most "
                      "after %d to warm up",
                      TransportName(setting.start.transport),
                      AlgorithmName(options.algorithm), options.iterations,
                      options.warmup),
      absl::StrFormat("# limit: %.3f GB/s of busbw, measured first: what "
                      "memory copies allow on one host, the slowest",
                      setting.start.bus_limit / kGiga),
      "# link between hosts; what fits in a cache may be beyond it; times are "
      "the slowest rank's",
  };
  if (!setting.start.fallback.empty()) {
    lines.push_back(
        absl::StrCat("# no shared memory ", Printable(setting.start.fallback)));
  }
  lines.push_back(
      absl::StrFormat("#%11s %12s %16s %8s %11s %11s %9s %9s %7s %7s %11s  %s",
                      "bytes", "count", "type", "redop", "p50", "p99", "algbw",
                      "busbw", "#wrong", "limit", "predicted", "algorithm"));
  lines.push_back(absl::StrFormat(
      "#%11s %12s %16s %8s %11s %11s %9s %9s %7s %7s %11s", "(B)", "(elements)",
      "", "", "(us)", "(us)", "(GB/s)", "(GB/s)", "", "(%)", "(us)"));
  return lines;
}

std::string BenchRowLine(const BenchSetting& setting,
                         const AllReduceBenchRow& row) {
  return absl::StrFormat(
      "%12d %12d %16s %8s %11.2f %11.2f %9.3f %9.3f %7d %7.1f %11.2f  %s",
      row.bytes, row.count, TypeText(setting.options),
      ReductionName(setting.options.reduction), row.p50 * kMicroseconds,
      row.p99 * kMicroseconds, AlgorithmGigabytes(row),
      BusGigabytes(setting, row), row.wrong, PercentOfLimit(setting, row),
      row.predicted * kMicroseconds, AlgorithmName(row.algorithm));
}

std::string BenchJson(const BenchSetting& setting,
                      const std::vector<AllReduceBenchRow>& rows) {
  using Json = nlohmann::ordered_json;
  const AllReduceBenchOptions& options = setting.options;
  Json json;
  json["bench"] = "allreduce";
  for (const auto& [name, text] : setting.place) json[name] = Printable(text);
  json["ranks"] = options.ranks;
  json["transport"] = TransportName(setting.start.transport);
  json["algorithm"] = AlgorithmName(options.algorithm);
  json["type"] = std::string(DTypeName(options.dtype));
  json["wire"] = std::string(DTypeName(options.wire.value_or(options.dtype)));
  json["redop"] = ReductionName(options.reduction);
  json["warmup"] = options.warmup;
  json["limit_busbw_gb_per_s"] = setting.start.bus_limit / kGiga;
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
    size["predicted_us"] = row.predicted * kMicroseconds;
    json["sizes"].push_back(std::move(size));
  }
  return absl::StrCat(json.dump(/*indent=*/2, ' ', /*ensure_ascii=*/false,
                                nlohmann::json::error_handler_t::replace),
                      "\n");
}

BenchSetting SettingOf(const v1::Job& job) {
  BenchSetting setting;
  // A program that cannot be parsed is of a newer release, and shows as far as
  // it can.
  absl::StatusOr<AllReduceBenchOptions> options =
      ParseBenchProgram(job.spec().bench(), job.spec().workers().min());
  if (options.ok()) setting.options = *std::move(options);
  setting.options.ranks = std::max(job.spec().workers().min(), 1);
  setting.start = BenchFiguresFrom(job.bench()).start;
  setting.ranks_are = "workers";
  std::set<std::string> hosts;
  for (const v1::Member& member : job.members()) hosts.insert(member.host());
  setting.place = {{"job", job.id()}};
  if (!hosts.empty())
    setting.place.emplace_back("hosts", absl::StrJoin(hosts, " "));
  return setting;
}

std::vector<AllReduceBenchRow> BenchRowsOf(const v1::Job& job) {
  return BenchFiguresFrom(job.bench()).rows;
}

std::vector<std::string> BenchTable(const v1::Job& job) {
  if (!job.has_bench()) return {};
  const BenchSetting setting = SettingOf(job);
  std::vector<std::string> lines = BenchHeadLines(setting);
  for (const AllReduceBenchRow& row : BenchRowsOf(job))
    lines.push_back(BenchRowLine(setting, row));
  return lines;
}

std::string BenchJson(const v1::Job& job) {
  return BenchJson(SettingOf(job), BenchRowsOf(job));
}

std::string BenchProgramText(const v1::BenchProgram& program) {
  if (program.sizes().empty()) return "all-reduce";
  std::string text = absl::StrCat(
      "all-reduce of ", program.sizes_size(),
      program.sizes_size() == 1 ? " size, " : " sizes, ", program.sizes(0));
  if (program.sizes_size() > 1)
    absl::StrAppend(&text, " to ", *program.sizes().rbegin());
  absl::StrAppend(&text, " bytes");
  const absl::StatusOr<AllReduceBenchOptions> options =
      ParseBenchProgram(program, 2);
  if (options.ok()) {
    absl::StrAppend(&text, ", ", TypeText(*options), ", ",
                    ReductionName(options->reduction));
  }
  return text;
}

}  // namespace ringmaster::ctl
