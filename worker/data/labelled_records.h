// Records of text and a label, in a CSV file (RFC 4180) whose first line names
// the columns, or in a file of JSON objects, one in each line.
#ifndef RINGMASTER_WORKER_DATA_LABELLED_RECORDS_H_
#define RINGMASTER_WORKER_DATA_LABELLED_RECORDS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

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

// Hands out the records of a text, which must outlive it, one at a time. All of
// them together take time linear in the text, whatever it holds.
//
// Thread-safety: thread-compatible.
class RecordReader {
 public:
  virtual ~RecordReader() = default;
  // Nothing at the end.
  [[nodiscard]] virtual std::optional<LabelledRecord> Next() = 0;
};

// A quoted field may have commas, line ends and doubled quotes in it. Lines may
// end in CR LF; empty ones are no records. After the line where a malformed
// record begins the next one begins another; as far as the malformed one was
// read, records reach over at most 16 more lines.
//   INVALID_ARGUMENT  the first line lacks one of the columns, or is malformed
[[nodiscard]] absl::StatusOr<std::unique_ptr<RecordReader>> ReadCsvRecords(
    std::string_view text, const RecordColumns& columns);

// Texts are strings; labels are strings, numbers or booleans.
[[nodiscard]] std::unique_ptr<RecordReader> ReadJsonRecords(
    std::string_view text, const RecordColumns& columns);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_LABELLED_RECORDS_H_
