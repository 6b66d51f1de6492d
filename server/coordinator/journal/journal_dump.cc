#include "server/coordinator/journal/journal_dump.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/config/proto_to_json.h"
#include "common/status/status_macros.h"
#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"
#include "ringmaster/v1/job.pb.h"
#include "server/coordinator/journal/database.h"
#include "server/coordinator/journal/journal.h"
#include "server/coordinator/journal/record_proto.h"

namespace ringmaster::coordinator {
namespace {

using Json = nlohmann::ordered_json;

absl::StatusOr<Json> ToJson(const google::protobuf::Message& message) {
  ASSIGN_OR_RETURN(const std::string text,
                   ProtoToJson(message, {.is_indented = false}));
  return Json::parse(text);
}

absl::Status WriteLine(int64_t sequence, const Row& row, std::ostream& out) {
  ASSIGN_OR_RETURN(const JournalRecord record, Decode(row));
  const v1::JournalRecord proto = RecordToProto(record);
  ASSIGN_OR_RETURN(const Json fields, ToJson(proto));
  Json line = {{"sequence", sequence}};
  line.update(fields);
  // Bytes that are no job spec stay in base64, as JSON has bytes.
  v1::JobSpec spec;
  if (proto.has_job_created() &&
      spec.ParseFromString(proto.job_created().spec())) {
    ASSIGN_OR_RETURN(line["job_created"]["spec"], ToJson(spec));
  }
  out << line.dump() << "\n";
  return absl::OkStatus();
}

}  // namespace

absl::Status DumpJournal(const std::string& state_dir, std::ostream& out) {
  ASSIGN_OR_RETURN(Database database, Database::OpenForReading(absl::StrCat(
                                          state_dir, "/", kJournalFile)));
  RETURN_IF_ERROR(database.ForEachRow([&](int64_t sequence, const Row& row) {
    return WriteLine(sequence, row, out);
  }));
  if (!out.flush())
    return absl::UnavailableError("the records cannot be written out");
  return absl::OkStatus();
}

}  // namespace ringmaster::coordinator
