#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/parameter_server/message.h"
#include "common/parameter_server/shard_layout.h"
#include "common/status/check.h"
#include "nlohmann/json.hpp"
#include "server/coordinator/journal/file_check.h"
#include "server/coordinator/journal/record_codec.h"
#include "server/coordinator/journal/testing/test_records.h"
#include "tests/fuzz/corpus_file.h"
#include "tests/fuzz/parser.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/safetensors_header.h"
#include "worker/data/bpe_tables.h"
#include "worker/data/idx_file.h"
#include "worker/data/picture_file.h"
#include "worker/data/testing/data_files.h"
#include "worker/data/testing/picture_files.h"
#include "worker/data/token_file.h"

namespace ringmaster::fuzz {
namespace {

// ---- the journal

// "type", a line feed, the body, and of release 0.1 a zero and the spec.
std::string TextOf(const coordinator::Row& row) {
  return absl::StrCat(row.type, "\n", row.body);
}

bool TryRecord(std::string_view input) {
  coordinator::Row row;
  const size_t end = std::min(input.find('\n'), input.size());
  row.type = std::string(input.substr(0, end));
  row.body = std::string(input.substr(std::min(end + 1, input.size())));
  if (row.body.starts_with('{')) {
    const size_t zero = std::min(row.body.find('\0'), row.body.size());
    row.spec = row.body.substr(std::min(zero + 1, row.body.size()));
    row.body.resize(zero);
  }
  const auto record = coordinator::Decode(row);
  CheckMessage(record.status());
  if (!record.ok()) return false;
  const auto again = coordinator::Decode(coordinator::Encode(*record));
  RM_CHECK(again.ok() && coordinator::AreEqual(*again, *record),
           "a record is another one once it was written");
  return true;
}

std::vector<std::string> Records() {
  std::vector<std::string> records;
  for (const coordinator::JournalRecord& record : coordinator::OneOfEach())
    records.push_back(TextOf(coordinator::Encode(record)));
  for (const char* type :
       {"cancel_requested", "generation_formed", "host_quarantined",
        "job_created", "job_ended", "verdict_reached"}) {
    records.push_back(
        CorpusFile(absl::StrCat("tests/fuzz/corpus/0.1.0-", type)));
  }
  return records;
}

bool TryJournalHeader(std::string_view input) {
  const absl::Status header = coordinator::CheckDatabaseHeader(input);
  CheckMessage(header);
  return header.ok();
}

bool TryJournalLog(std::string_view input) {
  const absl::Status log = coordinator::CheckLog(input);
  CheckMessage(log);
  return log.ok();
}

std::string JournalLog() {
  return CorpusFile("tests/fuzz/corpus/journal.sqlite3-wal");
}

std::string JournalHeader() {
  return CorpusFile("tests/golden/0.1.0/state/journal.sqlite3").substr(0, 200);
}

// ---- checkpoints

bool TrySafetensors(std::string_view input) {
  const auto header = safetensors::DecodeHeader(input);
  CheckMessage(header.status());
  if (!header.ok()) return false;
  const std::string text = safetensors::EncodeHeader(*header);
  const auto again = safetensors::DecodeHeader(text);
  RM_CHECK(again.ok() && safetensors::EncodeHeader(*again) == text,
           "a header is another one once it was written");
  return true;
}

std::vector<std::string> SafetensorsHeaders() {
  return {safetensors::EncodeHeader({}),
          safetensors::EncodeHeader(
              {.tensors = {{"wte.weight", "F32", {4, 8}, 0, 128},
                           {"h.0.ln_1.bias", "BF16", {8}, 128, 144},
                           {"scalar", "I64", {}, 144, 152}},
               .metadata = {{"format", "pt"}}})};
}

// With the hash of itself that fits, where that can be said at all: otherwise it is
// the only thing that is ever looked at.
std::string Sealed(std::string_view text) {
  using Json = nlohmann::ordered_json;
  Json json = Json::parse(text.begin(), text.end(), nullptr,
                          /*allow_exceptions=*/false);
  if (!json.is_object()) return std::string(text);
  json.erase("manifest_hash");
  const auto dump = [&] {
    return json.dump(1, ' ', false, Json::error_handler_t::replace);
  };
  const std::string rest = dump();
  json["manifest_hash"] =
      absl::StrFormat("%016x", XXH3_64bits(rest.data(), rest.size()));
  return dump();
}

bool TryManifest(std::string_view input) {
  CheckMessage(DecodeManifest(input).status());
  // The sealing itself recurses, so it gets nothing deep.
  if (std::count(input.begin(), input.end(), '[') +
          std::count(input.begin(), input.end(), '{') >
      100)
    return false;
  const auto manifest = DecodeManifest(Sealed(input));
  CheckMessage(manifest.status());
  if (!manifest.ok()) return false;
  const auto again = DecodeManifest(EncodeManifest(*manifest));
  RM_CHECK(again.ok() && EncodeManifest(*again) == EncodeManifest(*manifest),
           "a manifest is another one once it was written");
  (void)manifest->total_bytes();
  return true;
}

std::vector<std::string> Manifests() {
  return {
      CorpusFile("tests/golden/0.1.0/checkpoint/step-000000030/"
                 "checkpoint.json")};
}

// ---- data sets

// A file in memory with a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view content)
      : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
    RM_CHECK(fd_ >= 0 && write(fd_, content.data(), content.size()) ==
                             static_cast<ssize_t>(content.size()),
             "a file in memory can be written");
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  [[nodiscard]] std::string path() const {
    return absl::StrCat("/proc/self/fd/", fd_);
  }

 private:
  const int fd_;
};

constexpr int64_t kMaxDataBytes = int64_t{1} << 20;

bool TryDataFile(std::string_view input) {
  const MemoryFile file(input);
  const auto images = ReadIdxImages(file.path(), kMaxDataBytes, nullptr);
  CheckMessage(images.status());
  if (images.ok()) {
    RM_CHECK(static_cast<int64_t>(images->pixels.size()) ==
                 images->count * images->height * images->width,
             "images have other pixels than they say");
  }
  const auto labels = ReadIdxLabels(file.path(), kMaxDataBytes, nullptr);
  CheckMessage(labels.status());
  const auto tokens = TokenFile::Open(file.path(), TokenFormat::kDetect);
  CheckMessage(tokens.status());
  uint64_t sum = 0;
  if (tokens.ok()) {
    for (const uint16_t token : tokens->tokens()) sum += token;
  }
  return images.ok() || labels.ok() || sum != 0;
}

std::vector<std::string> DataFiles() {
  const std::string images = IdxImagesFile(2, 3, 2, "abcdefghijkl");
  const std::string labels = IdxLabelsFile("\x01\x02\x03");
  return {images,
          labels,
          Gzip(images),
          Gzip(labels),
          LlmCTokens({7, 8, 9}),
          RawTokens({1, 2})};
}

bool TryPicture(std::string_view input) {
  bool is_picture = false;
  PicturePart part;
  for (const int64_t channels : {1, 3}) {
    // All of it at the smallest scale, and a part of it at its own.
    for (const bool is_whole : {true, false}) {
      const PictureSize least = {is_whole ? 1 : 1 << 20,
                                 is_whole ? 1 : 1 << 20};
      const absl::Status decoded = DecodePicture(
          {reinterpret_cast<const uint8_t*>(input.data()), input.size()},
          {.channels = channels, .least = least, .max_pixels = 1 << 14},
          [is_whole](PictureSize size) -> PixelBox {
            if (is_whole) return {0, 0, size.height, size.width};
            return {size.height / 3, size.width / 3, (size.height + 2) / 3,
                    (size.width + 2) / 3};
          },
          part);
      CheckMessage(decoded);
      RM_CHECK(
          !decoded.ok() ||
              static_cast<int64_t>(part.picture.pixels.size()) ==
                  part.picture.size.height * part.picture.size.width * channels,
          "a picture has other pixels than it says");
      is_picture |= decoded.ok();
    }
  }
  return is_picture;
}

std::vector<std::string> Pictures() {
  const Picture rgb = SmoothPicture({19, 26}, 3);
  const Picture grey = SmoothPicture({17, 9}, 1);
  return {JpegFile(rgb),
          JpegFile(rgb, {.is_progressive = true}),
          JpegFile(rgb, {.is_subsampled = false}),
          JpegFile(grey),
          JpegFile(SmoothPicture({9, 17}, 4)),
          PngFile(rgb),
          PngFile(rgb, {.bit_depth = 16, .is_interlaced = true}),
          PngFile(grey, {.has_alpha = true}),
          PalettePngFile(grey)};
}

// ---- vocabularies

// The two files have a zero between them.
bool TryVocabulary(std::string_view input) {
  const size_t zero = std::min(input.find('\0'), input.size());
  const MemoryFile vocab(input.substr(0, zero));
  const MemoryFile merges(input.substr(std::min(zero + 1, input.size())));
  const auto tables = LoadBpeTables(vocab.path(), merges.path());
  CheckMessage(tables.status());
  return tables.ok();
}

std::vector<std::string> Vocabularies() {
  const std::vector<std::string> merges = {"t h", "th e", "a n"};
  return {
      absl::StrCat(VocabJson(merges), std::string(1, '\0'), MergesText(merges)),
      absl::StrCat(VocabJson({}), std::string(1, '\0'))};
}

// ---- shards

bool TryShardMessage(std::string_view input) {
  const auto bytes = std::as_bytes(std::span(input));
  if (bytes.size() < kShardMessageBytes) return false;
  const auto message = ParseShardMessage(bytes.first<kShardMessageBytes>());
  CheckMessage(message.status());
  if (!message.ok()) return false;
  (void)DescribeShardMessage(*message);
  const auto again = ParseShardMessage(EncodeShardMessage(*message));
  RM_CHECK(
      again.ok() && EncodeShardMessage(*again) == EncodeShardMessage(*message),
      "a message of shards changes on its way");
  return true;
}

std::vector<std::string> ShardMessages() {
  std::vector<std::string> messages;
  for (int op = 1; op <= static_cast<int>(ShardOp::kUpdated); ++op) {
    const ShardMessageBytes bytes =
        EncodeShardMessage({.op = static_cast<ShardOp>(op),
                            .shard = 1,
                            .bucket = 3,
                            .rank = 2,
                            .step = 12,
                            .value = 0.5,
                            .count = 65536});
    messages.emplace_back(reinterpret_cast<const char*>(bytes.data()),
                          bytes.size());
  }
  return messages;
}

// With the checksum that fits.
std::vector<std::byte> WithChecksum(std::string_view input) {
  const auto given = std::as_bytes(std::span(input));
  std::vector<std::byte> bytes(given.begin(), given.end());
  if (bytes.size() < sizeof(uint64_t)) return bytes;
  const size_t rest = bytes.size() - sizeof(uint64_t);
  const uint64_t hash = XXH3_64bits(bytes.data(), rest);
  std::memcpy(bytes.data() + rest, &hash, sizeof hash);
  return bytes;
}

bool TryDescription(std::string_view input) {
  CheckMessage(ParseShardDescription(std::as_bytes(std::span(input))).status());
  const std::vector<std::byte> bytes = WithChecksum(input);
  const auto shard = ParseShardDescription(bytes);
  CheckMessage(shard.status());
  RM_CHECK(!shard.ok() || Encode(*shard) == bytes,
           "a shard's description does not stand for its bytes");
  return shard.ok();
}

bool TryShard(std::string_view input) {
  const bool is_message = TryShardMessage(input);
  return TryDescription(input) || is_message;
}

std::vector<std::string> Shards() {
  std::vector<std::string> inputs = ShardMessages();
  ShardDescription shard;
  shard.shard = 1;
  shard.first_bucket = 2;
  shard.first_elem = 64;
  shard.plan_hash = 0x0123456789abcdef;
  shard.bucket_elems = {16, 32};
  shard.stretches = {{{0, 40}, true}, {{40, 8}, false}};
  const std::vector<std::byte> bytes = Encode(shard);
  inputs.emplace_back(reinterpret_cast<const char*>(bytes.data()),
                      bytes.size());
  return inputs;
}

}  // namespace

std::vector<Parser> FileParsers() {
  const std::vector<std::string> json = {
      "{",       "}",          "[",    "]",    ":",     ",",
      "\"",      "null",       "true", "1",    "-",     "1e",
      "\\u0000", "\\ud800",    "\n",   "\x7f", "\xFF",  "\xC3\xA9",
      "\"a\":",  "\"shape\":", "\\",   "[[",   "\"\":", "\\\"\\n"};
  std::vector<std::string> vocabulary = json;
  vocabulary.insert(vocabulary.end(), {" ", "#version", std::string(1, '\0'),
                                       "\xC4\xA0", "<|endoftext|>", "\r\n"});
  return {
      {"journal_record", Records(), json, TryRecord},
      {"journal_header", {JournalHeader()}, {}, TryJournalHeader},
      {"journal_log", {JournalLog()}, {}, TryJournalLog},
      {"safetensors", SafetensorsHeaders(), json, TrySafetensors},
      {"manifest", Manifests(), json, TryManifest},
      {"data_file", DataFiles(), {}, TryDataFile},
      {"picture",
       Pictures(),
       {"\xff\xd8", "\xff\xda", "\xff\xc4", "\xff\xc0", "\xff\xc2", "\xff\xd9",
        "Adobe", "IHDR", "IDAT", "PLTE", "tRNS", "IEND"},
       TryPicture},
      {"vocabulary", Vocabularies(), vocabulary, TryVocabulary},
      {"shard", Shards(), {}, TryShard},
  };
}

}  // namespace ringmaster::fuzz
