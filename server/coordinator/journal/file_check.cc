#include "server/coordinator/journal/file_check.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"

namespace ringmaster::coordinator {
namespace {

// ---- The log.

constexpr size_t kLogHeaderBytes = 32;
constexpr size_t kFrameHeaderBytes = 24;
// The least significant bit of the first one says that checksums are sums of
// big-endian words.
constexpr uint32_t kLogMagic = 0x377f0682;
constexpr uint32_t kLogVersion = 3007000;

uint32_t BigEndianAt(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  }
  return value;
}

// The checksum that runs through a log: each pair of words changes both sums.
struct Sums {
  uint32_t first = 0;
  uint32_t second = 0;
  bool operator==(const Sums&) const = default;
};

int BitsBetween(Sums a, Sums b) {
  return std::popcount(a.first ^ b.first) + std::popcount(a.second ^ b.second);
}

class Log {
 public:
  // Requires the bytes of a header.
  explicit Log(std::string_view bytes)
      : bytes_(bytes),
        is_big_endian_((BigEndianAt(bytes, 0) & 1) != 0),
        page_bytes_(BigEndianAt(bytes, 8)) {}

  absl::Status Check() const {
    if ((BigEndianAt(bytes_, 0) & ~1U) != kLogMagic ||
        BigEndianAt(bytes_, 4) != kLogVersion || page_bytes_ < 512 ||
        page_bytes_ > 65536 || !std::has_single_bit(page_bytes_) ||
        Extended({}, bytes_.substr(0, 24)) != SumsAt(24)) {
      return absl::DataLossError(
          "its header, bytes 0 to 31, does not match its checksum");
    }
    Sums running = SumsAt(24);
    for (size_t frame = 0; frame < FrameCount(); ++frame) {
      const Sums sums = SumsThrough(running, frame);
      if (!IsCurrent(frame) || sums != StoredSums(frame))
        return CheckAfter(frame, sums);
      running = sums;
    }
    return absl::OkStatus();
  }

 private:
  size_t FrameBytes() const { return kFrameHeaderBytes + page_bytes_; }
  // A part of a frame does not count.
  size_t FrameCount() const {
    return (bytes_.size() - kLogHeaderBytes) / FrameBytes();
  }
  size_t Begin(size_t frame) const {
    return kLogHeaderBytes + frame * FrameBytes();
  }
  Sums SumsAt(size_t at) const {
    return {BigEndianAt(bytes_, at), BigEndianAt(bytes_, at + 4)};
  }
  Sums StoredSums(size_t frame) const { return SumsAt(Begin(frame) + 16); }
  // The salts change each time a log is begun anew.
  Sums SaltsOf(size_t frame) const { return SumsAt(Begin(frame) + 8); }
  bool IsCurrent(size_t frame) const { return SaltsOf(frame) == SumsAt(16); }
  bool EndsCommit(size_t frame) const {
    return BigEndianAt(bytes_, Begin(frame) + 4) != 0;
  }

  uint32_t WordAt(size_t at) const {
    const uint32_t value = BigEndianAt(bytes_, at);
    return is_big_endian_ ? value : __builtin_bswap32(value);
  }

  // `sums` after `bytes`, an even number of words.
  Sums Extended(Sums sums, std::string_view bytes) const {
    const size_t begin = static_cast<size_t>(bytes.data() - bytes_.data());
    for (size_t at = begin; at < begin + bytes.size(); at += 8) {
      sums.first += WordAt(at) + sums.second;
      sums.second += WordAt(at + 4) + sums.first;
    }
    return sums;
  }

  // `before` after `frame`: its page number and commit mark, then its page.
  Sums SumsThrough(Sums before, size_t frame) const {
    const Sums sums = Extended(before, bytes_.substr(Begin(frame), 8));
    return Extended(
        sums, bytes_.substr(Begin(frame) + kFrameHeaderBytes, page_bytes_));
  }

  // Returns true if the frame after `frame` was written when the checksum was
  // `sums` here.
  bool IsContinued(size_t frame, Sums sums) const {
    return IsCurrent(frame + 1) &&
           SumsThrough(sums, frame + 1) == StoredSums(frame + 1);
  }

  // `bad` is the first frame that does not match, `sums` its checksum as it should
  // be.
  absl::Status CheckAfter(size_t bad, Sums sums) const {
    const std::string place =
        absl::StrCat("frame ", bad + 1, ", at byte ", Begin(bad));
    if (const auto at = FlippedByte(bad, sums); at.has_value()) {
      return absl::DataLossError(
          absl::StrCat(place, ": a bit of byte ", *at, " is flipped"));
    }
    // The frames that a failed commit left end with that commit at the latest,
    // because the next commit was written over their beginning.
    for (size_t frame = bad; frame + 1 < FrameCount(); ++frame) {
      if (!EndsCommit(frame)) continue;
      if (IsContinued(frame, StoredSums(frame)) ||
          (frame == bad && IsContinued(frame, sums))) {
        return absl::DataLossError(absl::StrCat(
            place,
            ", does not match its checksum, and later commits are behind it"));
      }
    }
    return absl::OkStatus();
  }

  // Returns the byte of `frame` in which one flipped bit explains that its
  // checksum is `sums` and not what it says.
  std::optional<size_t> FlippedByte(size_t frame, Sums sums) const {
    const size_t begin = Begin(frame);
    const Sums stored = StoredSums(frame);
    if (BitsBetween(SaltsOf(frame), SumsAt(16)) == 1 && sums == stored)
      return DifferingByte(begin + 8, SumsAt(16));
    if (!IsCurrent(frame)) return std::nullopt;
    if (BitsBetween(sums, stored) == 1) return DifferingByte(begin + 16, sums);
    // The sums are linear in the words, so each word adds its value times a weight
    // that only depends on how many pairs follow.
    const Sums error = {sums.first - stored.first, sums.second - stored.second};
    Sums weight = {1, 1};  // of the first word of a pair; (0, 1) of the second
    Sums second_weight = {0, 1};
    const auto step_back = [](Sums& w) {
      w.first += w.second;
      w.second += w.first;
    };
    for (size_t words = (8 + page_bytes_) / 4; words > 0; words -= 2) {
      // The page number and the commit mark stand before salts and checksum.
      const size_t at = words == 2 ? begin : begin + 8 + words * 4;
      if (auto byte = FlippedByteOfWord(at + 4, second_weight, error))
        return byte;
      if (auto byte = FlippedByteOfWord(at, weight, error)) return byte;
      step_back(weight);
      step_back(second_weight);
    }
    return std::nullopt;
  }

  std::optional<size_t> FlippedByteOfWord(size_t at, Sums weight,
                                          Sums error) const {
    const uint32_t word = WordAt(at);
    for (uint32_t bit = 0; bit < 32; ++bit) {
      const uint32_t change =
          (word >> bit & 1) != 0 ? uint32_t{1} << bit : -(uint32_t{1} << bit);
      if (change * weight.first == error.first &&
          change * weight.second == error.second) {
        return at + (is_big_endian_ ? 3 - bit / 8 : bit / 8);
      }
    }
    return std::nullopt;
  }

  // Returns the first byte of the eight at `at` that `expected` has otherwise.
  size_t DifferingByte(size_t at, Sums expected) const {
    const uint64_t difference =
        uint64_t{BigEndianAt(bytes_, at) ^ expected.first} << 32 |
        (BigEndianAt(bytes_, at + 4) ^ expected.second);
    return at + static_cast<size_t>(std::countl_zero(difference)) / 8;
  }

  const std::string_view bytes_;
  const bool is_big_endian_;
  const size_t page_bytes_;
};

// ---- The database.

// Bytes of a header that are the same in every journal.
struct HeaderField {
  size_t at;
  const char* name;
  // The values that each of its bytes may have.
  std::string_view values;
  size_t byte_count = 1;
};

using namespace std::string_view_literals;  // NOLINT: for texts with zeros

constexpr std::array<HeaderField, 10> kHeaderFields = {{
    {18, "the format for writing", "\1\2"},
    {19, "the format for reading", "\1\2"},
    {20, "the reserved space", "\0"sv},
    {21, "the largest share of a record", "\x40"},
    {22, "the least share of a record", "\x20"},
    {23, "the least share in a leaf", "\x20"},
    {44, "the schema's format", "\0"sv, 3},
    {47, "the schema's format", "\0\4"sv},
    {56, "the encoding of texts", "\0"sv, 3},
    {72, "the bytes for later use", "\0"sv, 20},
}};

constexpr std::string_view kDatabaseMagic = "SQLite format 3\0"sv;
constexpr size_t kDatabaseHeaderBytes = 100;

// ---- Files.

absl::Status ReadError(const std::string& path, int error) {
  const std::string text =
      absl::StrCat("journal ", path, " cannot be read: ", strerror(error));
  if (error != EACCES && error != EPERM) return absl::UnavailableError(text);
  return WithExitCode(absl::PermissionDeniedError(text), ExitCode::kUsage);
}

// Returns the first `limit` bytes; none if there is no such file.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t limit) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return std::string();
  if (fd < 0) return ReadError(path, errno);
  std::string bytes;
  std::array<char, 64 << 10> piece;
  ssize_t count = 0;
  do {
    count =
        read(fd, piece.data(), std::min(piece.size(), limit - bytes.size()));
    if (count > 0) bytes.append(piece.data(), static_cast<size_t>(count));
  } while (count > 0 || (count < 0 && errno == EINTR));
  const int error = errno;
  close(fd);
  if (count < 0) return ReadError(path, error);
  return bytes;
}

absl::Status CheckFilesOnce(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string database,
                   ReadFile(path, kDatabaseHeaderBytes));
  ASSIGN_OR_RETURN(const std::string log,
                   ReadFile(path + "-wal", std::numeric_limits<size_t>::max()));
  const auto in = [](const std::string& file, const absl::Status& status) {
    return status.ok() ? status
                       : absl::DataLossError(absl::StrCat(
                             file, ": ", std::string(status.message())));
  };
  if (database.empty() && log.size() > kLogHeaderBytes)
    return in(path, absl::DataLossError("it is empty, and its log is not"));
  // SQLite takes back what was being written without a log: its first page.
  std::error_code error;
  if (!std::filesystem::exists(path + "-journal", error))
    RETURN_IF_ERROR(in(path, CheckDatabaseHeader(database)));
  return in(path + "-wal", CheckLog(log));
}

}  // namespace

absl::Status CheckLog(std::string_view log) {
  if (log.size() <= kLogHeaderBytes) return absl::OkStatus();
  return Log(log).Check();
}

absl::Status CheckDatabaseHeader(std::string_view database) {
  if (database.empty()) return absl::OkStatus();
  if (database.size() < kDatabaseHeaderBytes) {
    return absl::DataLossError(
        absl::StrCat("it ends at byte ", database.size(), ", in its header"));
  }
  for (size_t at = 0; at < kDatabaseMagic.size(); ++at) {
    if (database[at] != kDatabaseMagic[at])
      return absl::DataLossError(
          absl::StrCat("byte ", at, " is not that of a SQLite database"));
  }
  const uint32_t page_bytes = BigEndianAt(database, 16) >> 16;
  if (!std::has_single_bit(page_bytes)) {
    return absl::DataLossError(absl::StrCat(
        "bytes 16 and 17 of its header (the size of a page) are ", page_bytes));
  }
  for (const HeaderField& field : kHeaderFields) {
    const size_t at = database.find_first_not_of(field.values, field.at);
    if (at < field.at + field.byte_count) {
      return absl::DataLossError(
          absl::StrCat("byte ", at, " of its header (", field.name, ") is ",
                       static_cast<int>(static_cast<uint8_t>(database[at]))));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFiles(const std::string& path) {
  absl::Status found = CheckFilesOnce(path);
  // As often as there is something else: a coordinator writes, and each time has
  // to have written more.
  while (absl::IsDataLoss(found)) {
    const absl::Status again = CheckFilesOnce(path);
    if (again == found) break;
    found = again;
  }
  return found;
}

}  // namespace ringmaster::coordinator
