#include "worker/checkpoint/manifest.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status/status_macros.h"
#include "nlohmann/json.hpp"
#include "xxhash.h"

namespace ringmaster {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kSelfHash[] = "manifest_hash";
constexpr char kCompanions[] = "companions";
constexpr char kJob[] = "job";
constexpr char kLossScale[] = "loss_scale";
constexpr char kGoodUpdates[] = "loss_scale_good_updates";
constexpr char kEvaluations[] = "evaluations";

std::string Hex(uint64_t hash) { return absl::StrFormat("%016x", hash); }

std::string Dump(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

// Anything deeper is not ours, and would be a deep recursion in Dump.
constexpr int kMaxDepth = 4;

Json ParseShallow(std::string_view text) {
  bool is_too_deep = false;
  const auto watch = [&](int depth, Json::parse_event_t, Json&) {
    is_too_deep = is_too_deep || depth > kMaxDepth;
    return !is_too_deep;
  };
  Json json = Json::parse(text.begin(), text.end(), watch,
                          /*allow_exceptions=*/false);
  return is_too_deep ? Json() : json;
}

// Returns the hash of the text without the hash itself.
std::string SelfHashOf(const Json& json) {
  const std::string text = Dump(json);
  return Hex(XXH3_64bits(text.data(), text.size()));
}

// Reads members one after the other, and remembers the first that is not what
// it should be.
class MemberReader {
 public:
  explicit MemberReader(const Json& json) : json_(json) {}

  std::string Text(const char* name) {
    const Json* const member = Member(name);
    if (member == nullptr || !member->is_string()) return Fail(name), "";
    return member->get<std::string>();
  }

  int64_t Size(const char* name) {
    const Json* const member = Member(name);
    if (member == nullptr || !member->is_number_integer() ||
        member->get<int64_t>() < 0) {
      return Fail(name), 0;
    }
    return member->get<int64_t>();
  }

  // A number, or infinity if there is none.
  double RealOrInfinity(const char* name) {
    const Json* const member = Member(name);
    if (member == nullptr) return std::numeric_limits<double>::infinity();
    if (!member->is_number()) return Fail(name), 0;
    return member->get<double>();
  }

  bool Has(const char* name) const { return Member(name) != nullptr; }

  uint64_t Hash(const char* name) {
    const std::string text = Text(name);
    uint64_t hash = 0;
    if (text.size() != 16 || !absl::SimpleHexAtoi(text, &hash)) Fail(name);
    return hash;
  }

  absl::Time Time(const char* name) {
    absl::Time time;
    if (!absl::ParseTime(absl::RFC3339_sec, Text(name), &time, nullptr))
      Fail(name);
    return time;
  }

  // The list of that name; empty if there is none.
  const Json& List(const char* name) {
    static const Json& empty = *new Json(Json::array());
    const Json* const member = Member(name);
    if (member != nullptr && member->is_array()) return *member;
    return Fail(name), empty;
  }

  void Fail(const char* name) {
    if (failed_.empty()) failed_ = name;
  }

  absl::Status status() const {
    if (failed_.empty()) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat("its member ", failed_, " is missing or malformed"));
  }

 private:
  const Json* Member(const char* name) const {
    if (!json_.is_object()) return nullptr;
    const auto found = json_.find(name);
    return found == json_.end() ? nullptr : &*found;
  }

  const Json& json_;
  std::string failed_;
};

Json FileToJson(const CheckpointFile& file) {
  Json blocks = Json::array();
  for (const uint64_t hash : file.digest.block_hashes)
    blocks.push_back(Hex(hash));
  return {{"name", file.name},
          {"size_bytes", file.digest.size_bytes},
          {"hash", Hex(file.digest.hash)},
          {"block_hashes", std::move(blocks)}};
}

// A name that does not lead elsewhere.
std::string FileName(MemberReader& reader) {
  std::string name = reader.Text("name");
  if (name.empty() || name.front() == '.' ||
      name.find('/') != std::string::npos) {
    reader.Fail("name");
  }
  return name;
}

absl::StatusOr<CheckpointCompanion> CompanionFrom(const Json& json) {
  MemberReader reader(json);
  CheckpointCompanion companion{FileName(reader), reader.Text("path")};
  RETURN_IF_ERROR(reader.status());
  return companion;
}

absl::StatusOr<CheckpointFile> FileFrom(const Json& json) {
  MemberReader reader(json);
  CheckpointFile file;
  file.name = FileName(reader);
  file.digest.size_bytes = reader.Size("size_bytes");
  file.digest.hash = reader.Hash("hash");
  for (const Json& block : reader.List("block_hashes")) {
    const Json wrapped = {{"block_hashes", block}};
    MemberReader block_reader(wrapped);
    file.digest.block_hashes.push_back(block_reader.Hash("block_hashes"));
    RETURN_IF_ERROR(block_reader.status());
  }
  // Without adding, which could overflow.
  const int64_t blocks = file.digest.size_bytes / kDigestBlockBytes +
                         (file.digest.size_bytes % kDigestBlockBytes != 0);
  if (static_cast<int64_t>(file.digest.block_hashes.size()) != blocks)
    reader.Fail("block_hashes");
  RETURN_IF_ERROR(reader.status());
  return file;
}

// None where there is none, as in a checkpoint of float32.
std::optional<LossScale> LossScaleFrom(MemberReader& reader) {
  if (!reader.Has(kLossScale)) return std::nullopt;
  const auto value = static_cast<double>(reader.Size(kLossScale));
  const int64_t good_updates = reader.Size(kGoodUpdates);
  if (!LossScale::IsValue(value)) {
    reader.Fail(kLossScale);
    return std::nullopt;
  }
  return LossScale(value, good_updates);
}

Json ToJson(const EvaluationHistory& evaluations) {
  Json json = {{"last_step", evaluations.last_step},
               {"best_step", evaluations.best_step},
               {"without_progress", evaluations.without_progress}};
  // Infinity, which JSON does not have, is left out.
  if (std::isfinite(evaluations.best_loss))
    json["best_loss"] = evaluations.best_loss;
  if (std::isfinite(evaluations.progress_loss))
    json["progress_loss"] = evaluations.progress_loss;
  return json;
}

absl::StatusOr<EvaluationHistory> EvaluationsFrom(const Json& json) {
  MemberReader reader(json);
  EvaluationHistory evaluations;
  evaluations.last_step = reader.Size("last_step");
  evaluations.best_step = reader.Size("best_step");
  evaluations.best_loss = reader.RealOrInfinity("best_loss");
  evaluations.progress_loss = reader.RealOrInfinity("progress_loss");
  evaluations.without_progress = reader.Size("without_progress");
  RETURN_IF_ERROR(reader.status());
  return evaluations;
}

absl::Status CheckVersion(MemberReader& reader) {
  const int64_t version = reader.Size("format_version");
  RETURN_IF_ERROR(reader.status());
  if (version > kCheckpointFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it has format version ", version, ", but this program reads up to ",
        kCheckpointFormatVersion, "; use a newer program"));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t CheckpointManifest::total_bytes() const {
  int64_t sum = 0;
  for (const CheckpointFile& file : files) sum += file.digest.size_bytes;
  return sum;
}

const CheckpointFile* CheckpointManifest::Find(std::string_view name) const {
  for (const CheckpointFile& file : files) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

std::string EncodeManifest(const CheckpointManifest& manifest) {
  Json files = Json::array();
  for (const CheckpointFile& file : manifest.files)
    files.push_back(FileToJson(file));
  Json json = {{"format_version", kCheckpointFormatVersion},
               {"step", manifest.step},
               {"creation_time",
                absl::FormatTime(absl::RFC3339_sec, manifest.creation_time,
                                 absl::UTCTimeZone())},
               {"writer_version", manifest.writer_version},
               {"model_kind", manifest.model_kind},
               {"model_settings", manifest.model_settings},
               {"program", manifest.program_text},
               {"plan", manifest.plan_text},
               {"plan_hash", Hex(manifest.plan_hash)},
               {"data_fingerprint", Hex(manifest.data_fingerprint)},
               {"parameters_hash", Hex(manifest.parameters_hash)},
               {"files", std::move(files)}};
  if (manifest.loss_scale.has_value()) {
    json[kLossScale] = static_cast<int64_t>(manifest.loss_scale->value());
    json[kGoodUpdates] = manifest.loss_scale->good_updates();
  }
  if (manifest.evaluations.has_value())
    json[kEvaluations] = ToJson(*manifest.evaluations);
  if (!manifest.job_id.empty()) json[kJob] = manifest.job_id;
  if (!manifest.companions.empty()) json[kCompanions] = Json::array();
  for (const CheckpointCompanion& companion : manifest.companions) {
    json[kCompanions].push_back(
        {{"name", companion.name}, {"path", companion.path}});
  }
  // The JSON as a reader will have it where a text is not UTF-8.
  Json readable = ParseShallow(Dump(json));
  const std::string self_hash = SelfHashOf(readable);
  readable[kSelfHash] = self_hash;
  return Dump(readable) + "\n";
}

absl::StatusOr<CheckpointManifest> DecodeManifest(std::string_view text) {
  Json json = ParseShallow(text);
  if (!json.is_object()) return absl::DataLossError("it is not a JSON object");
  // First: what follows has other members in another version.
  MemberReader reader(json);
  RETURN_IF_ERROR(CheckVersion(reader));
  const std::string self_hash = reader.Text(kSelfHash);
  RETURN_IF_ERROR(reader.status());
  json.erase(kSelfHash);
  if (self_hash != SelfHashOf(json))
    return absl::DataLossError("its manifest_hash does not fit the rest");
  CheckpointManifest manifest;
  manifest.step = reader.Size("step");
  manifest.creation_time = reader.Time("creation_time");
  manifest.writer_version = reader.Text("writer_version");
  manifest.model_kind = reader.Text("model_kind");
  manifest.model_settings = reader.Text("model_settings");
  manifest.program_text = reader.Text("program");
  manifest.plan_text = reader.Text("plan");
  manifest.plan_hash = reader.Hash("plan_hash");
  manifest.data_fingerprint = reader.Hash("data_fingerprint");
  manifest.parameters_hash = reader.Hash("parameters_hash");
  manifest.loss_scale = LossScaleFrom(reader);
  if (reader.Has(kEvaluations)) {
    ASSIGN_OR_RETURN(manifest.evaluations, EvaluationsFrom(json[kEvaluations]));
  }
  if (reader.Has(kJob)) manifest.job_id = reader.Text(kJob);
  for (const Json& item : reader.List("files")) {
    ASSIGN_OR_RETURN(CheckpointFile file, FileFrom(item));
    manifest.files.push_back(std::move(file));
  }
  if (reader.Has(kCompanions)) {
    for (const Json& item : reader.List(kCompanions)) {
      ASSIGN_OR_RETURN(CheckpointCompanion companion, CompanionFrom(item));
      manifest.companions.push_back(std::move(companion));
    }
  }
  RETURN_IF_ERROR(reader.status());
  return manifest;
}

}  // namespace ringmaster
