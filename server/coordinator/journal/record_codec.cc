#include "server/coordinator/journal/record_codec.h"

#include <xxhash.h>

#include <optional>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/coordinator/journal/json_record.h"
#include "server/coordinator/journal/record_proto.h"

namespace ringmaster::coordinator {

int64_t ChecksumOf(const Row& row) {
  const std::string all =
      absl::StrCat(row.type, "\n", row.job_id, "\n", row.generation, "\n",
                   row.body, "\n", row.spec);
  return static_cast<int64_t>(XXH64(all.data(), all.size(), 0));
}

Row Encode(const JournalRecord& record) {
  Row row;
  row.type = std::string(TypeOf(record));
  row.job_id = JobIdOf(record);
  if (const auto* const formed = std::get_if<GenerationFormedRecord>(&record)) {
    row.generation = formed->generation;
  }
  row.body = RecordToProto(record).SerializeAsString();
  row.checksum = ChecksumOf(row);
  return row;
}

absl::StatusOr<JournalRecord> Decode(const Row& row) {
  if (row.checksum != ChecksumOf(row)) {
    return absl::DataLossError("its checksum does not match");
  }
  // No message begins with this byte: it would be field 15.
  if (absl::StartsWith(row.body, "{")) {
    return RecordFromJson(row.type, row.body, row.spec);
  }
  v1::JournalRecord proto;
  if (!proto.ParseFromString(row.body)) {
    return absl::DataLossError("its body is malformed");
  }
  std::optional<JournalRecord> record = RecordFromProto(proto);
  if (!record.has_value()) {
    return absl::DataLossError(
        absl::StrCat("its type \"", row.type, "\" is unknown"));
  }
  return *std::move(record);
}

}  // namespace ringmaster::coordinator
