#include "worker/bench/all_reduce_bench.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "common/transport/tcp.h"
#include "worker/bench/all_reduce_rank.h"

namespace ringmaster {
namespace {

// What a rank sends: between forks of one program, its bytes as they are.
struct Report {
  int32_t row = -1;           // -1: `start` is what it brings
  AllReduceBenchStart start;  // of rank 0 only
  AllReduceBenchRow figures;
};

std::string_view BytesOf(const Report& report) {
  return {reinterpret_cast<const char*>(&report), sizeof(report)};
}

Report ReportFrom(std::string_view bytes) {
  Report report;
  RM_CHECK(bytes.size() == sizeof(report), "ranks send reports");
  std::memcpy(&report, bytes.data(), sizeof(report));
  return report;
}

absl::Status RunRank(const AllReduceBenchOptions& options,
                     const std::vector<Listener>& listeners, int rank,
                     const ForkedRanks::Send& send) {
  Report report;
  AllReduceRankReports reports;
  reports.on_start = [&](const AllReduceBenchStart& start) {
    if (rank != 0) return absl::OkStatus();
    report.start = start;
    return send(BytesOf(report));
  };
  reports.on_row = [&](const AllReduceBenchRow& row) {
    ++report.row;
    report.figures = row;
    return send(BytesOf(report));
  };
  return RunAllReduceRank(options, listeners, rank, reports);
}

// Better to say so than to have the kernel kill somebody.
absl::Status CheckMemory(const AllReduceBenchOptions& options) {
  const int64_t largest =
      *std::max_element(options.sizes.begin(), options.sizes.end());
  const int64_t machine =
      static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  if (largest <= machine / options.ranks) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(options.ranks, " ranks with ", largest,
                   " bytes each are more than this machine's memory of ",
                   machine, " bytes; choose smaller --sizes or fewer --ranks"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<AllReduceBench>> AllReduceBench::Start(
    const AllReduceBenchOptions& options) {
  RETURN_IF_ERROR(CheckAllReduceBench(options));
  RETURN_IF_ERROR(CheckMemory(options));
  std::vector<Listener> listeners;
  for (int rank = 0; rank < options.ranks; ++rank) {
    ASSIGN_OR_RETURN(Listener listener, Listener::Listen("127.0.0.1:0"));
    listeners.push_back(std::move(listener));
  }
  ASSIGN_OR_RETURN(
      std::unique_ptr<ForkedRanks> processes,
      ForkedRanks::Start(options.ranks,
                         [&](int rank, const ForkedRanks::Send& send) {
                           return RunRank(options, listeners, rank, send);
                         }));
  return std::unique_ptr<AllReduceBench>(new AllReduceBench(
      options.ranks, options.sizes.size(), std::move(processes)));
}

absl::StatusOr<AllReduceBenchStart> AllReduceBench::AwaitStart(int stop_fd) {
  ASSIGN_OR_RETURN(const std::optional<std::string> message,
                   processes_->Next(stop_fd));
  RM_CHECK(message.has_value(), "rank 0 reports its start");
  const Report report = ReportFrom(*message);
  RM_CHECK(report.row == -1, "the start comes first");
  return report.start;
}

absl::StatusOr<std::optional<AllReduceBenchRow>> AllReduceBench::NextRow(
    int stop_fd) {
  while (next_ < rows_.size() && rows_[next_].reports < ranks_) {
    ASSIGN_OR_RETURN(const std::optional<std::string> message,
                     processes_->Next(stop_fd));
    RM_CHECK(message.has_value(), "every rank reports every size");
    const Report report = ReportFrom(*message);
    PartialRow& partial = rows_[static_cast<size_t>(report.row)];
    const int64_t wrong = partial.row.wrong + report.figures.wrong;
    partial.row = report.figures;
    partial.row.wrong = wrong;
    ++partial.reports;
  }
  if (next_ < rows_.size()) return rows_[next_++].row;
  // The ranks end.
  ASSIGN_OR_RETURN(const std::optional<std::string> message,
                   processes_->Next(stop_fd));
  RM_CHECK(!message.has_value(), "nothing comes after the last size");
  return std::nullopt;
}

}  // namespace ringmaster
