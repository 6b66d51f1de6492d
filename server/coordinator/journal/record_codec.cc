#include "server/coordinator/journal/record_codec.h"

#include <xxhash.h>

#include <optional>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/text/utf8.h"
#include "server/coordinator/journal/json_record.h"
#include "server/coordinator/journal/record_proto.h"

namespace ringmaster::coordinator {

namespace {

constexpr size_t kMaxCitedTypeBytes = 80;

std::string TextOf(const Row& row) {
  return absl::StrCat(row.type, "\n", row.job_id, "\n", row.generation, "\n",
                      row.body, "\n", row.spec);
}

int64_t HashOf(const std::string& text) {
  return static_cast<int64_t>(XXH64(text.data(), text.size(), 0));
}

}  // namespace

int64_t ChecksumOf(int64_t number, const Row& row) {
  return HashOf(absl::StrCat(number, "\n", TextOf(row)));
}

int64_t UnnumberedChecksumOf(const Row& row) { return HashOf(TextOf(row)); }

Row Encode(const JournalRecord& record) {
  Row row;
  row.type = std::string(TypeOf(record));
  row.job_id = JobIdOf(record);
  if (const auto* const formed = std::get_if<GenerationFormedRecord>(&record)) {
    row.generation = formed->generation;
  }
  row.body = RecordToProto(record).SerializeAsString();
  return row;
}

absl::StatusOr<JournalRecord> Decode(const Row& row) {
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
    return absl::DataLossError(absl::StrCat(
        "its type \"",
        absl::Utf8SafeCHexEscape(BoundedUtf8(row.type, kMaxCitedTypeBytes)),
        "\" is unknown"));
  }
  return *std::move(record);
}

}  // namespace ringmaster::coordinator
