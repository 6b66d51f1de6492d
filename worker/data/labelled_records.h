// Records of text and a label, in a CSV file (RFC 4180) whose first line names
// the columns, or in a file of JSON objects, one in each line.
//
// Thread-safety: pure.
#ifndef RINGMASTER_WORKER_DATA_LABELLED_RECORDS_H_
#define RINGMASTER_WORKER_DATA_LABELLED_RECORDS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ringmaster {

// The names of columns, or of keys.
struct RecordColumns {
  std::string text;
  std::string second_text;  // empty: there is none
  std::string label;
};

struct LabelledRecord {
  int64_t line = 0;  // where it begins, from 1
  // Why it is none: the other members are then empty.
  std::string problem;
  std::string text;
  std::string second_text;
  std::string label;
};

// A quoted field may have commas, line ends and doubled quotes in it. Lines may
// end in CR LF; empty ones are no records.
//   INVALID_ARGUMENT  the first line lacks one of the columns, or is malformed
[[nodiscard]] absl::StatusOr<std::vector<LabelledRecord>> ParseCsvRecords(
    std::string_view text, const RecordColumns& columns);

// Texts are strings; labels are strings, numbers or booleans.
[[nodiscard]] std::vector<LabelledRecord> ParseJsonRecords(
    std::string_view text, const RecordColumns& columns);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_LABELLED_RECORDS_H_
