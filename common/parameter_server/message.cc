#include "common/parameter_server/message.h"

#include <algorithm>
#include <bit>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/transport/little_endian.h"

namespace ringmaster {
namespace {

// The offsets of the fields, little endian; bytes between them are zero.
constexpr size_t kOp = 0;
constexpr size_t kPart = 1;
constexpr size_t kDone = 2;
constexpr size_t kWire = 3;
constexpr size_t kDrain = 4;
constexpr size_t kShard = 8;
constexpr size_t kBucket = 12;
constexpr size_t kRank = 16;
constexpr size_t kStep = 24;
constexpr size_t kValue = 32;
constexpr size_t kCount = 40;

template <typename Enum>
std::byte ByteOf(Enum value) {
  return static_cast<std::byte>(value);
}

uint8_t At(std::span<const std::byte> bytes, size_t place) {
  return std::to_integer<uint8_t>(bytes[place]);
}

bool IsZero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](std::byte byte) { return byte == std::byte{0}; });
}

absl::Status CheckEnums(std::span<const std::byte> bytes) {
  const uint8_t op = At(bytes, kOp);
  const uint8_t part = At(bytes, kPart);
  const uint8_t done = At(bytes, kDone);
  const uint8_t wire = At(bytes, kWire);
  const uint8_t drain = At(bytes, kDrain);
  const bool is_wire = wire == static_cast<uint8_t>(DType::kFloat32) ||
                       wire == static_cast<uint8_t>(DType::kFloat16) ||
                       wire == static_cast<uint8_t>(DType::kBFloat16);
  if (op >= static_cast<uint8_t>(ShardOp::kOpen) &&
      op <= static_cast<uint8_t>(ShardOp::kUpdated) &&
      part <= static_cast<uint8_t>(StatePart::kSecondMoment) &&
      done >= static_cast<uint8_t>(DoneKind::kFinished) &&
      done <= static_cast<uint8_t>(DoneKind::kDrained) && is_wire &&
      drain <= 1 && IsZero(bytes.subspan(kDrain + 1, kShard - kDrain - 1)) &&
      IsZero(bytes.subspan(kRank + 4, kStep - kRank - 4))) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "not a message about shards: op ", op, ", part ", part, ", done ", done,
      ", wire ", wire, ", drain ", drain, ", or bytes that must be zero"));
}

}  // namespace

const char* ShardOpName(ShardOp op) {
  switch (op) {
    case ShardOp::kOpen:
      return "open";
    case ShardOp::kLoad:
      return "load";
    case ShardOp::kPull:
      return "pull";
    case ShardOp::kValues:
      return "values";
    case ShardOp::kPush:
      return "push";
    case ShardOp::kNorm:
      return "norm";
    case ShardOp::kScale:
      return "scale";
    case ShardOp::kDone:
      return "done";
    case ShardOp::kState:
      return "state";
    case ShardOp::kUpdate:
      return "update";
    case ShardOp::kUpdated:
      return "updated";
  }
  return "unknown";
}

ShardMessageBytes EncodeShardMessage(const ShardMessage& message) {
  ShardMessageBytes bytes = {};
  std::byte* const to = bytes.data();
  to[kOp] = ByteOf(message.op);
  to[kPart] = ByteOf(message.part);
  to[kDone] = ByteOf(message.done);
  to[kWire] = ByteOf(message.wire);
  to[kDrain] = ByteOf(message.wants_drain ? 1 : 0);
  StoreLittleEndian(static_cast<uint32_t>(message.shard), to + kShard);
  StoreLittleEndian(static_cast<uint32_t>(message.bucket), to + kBucket);
  StoreLittleEndian(static_cast<uint32_t>(message.rank), to + kRank);
  StoreLittleEndian(static_cast<uint64_t>(message.step), to + kStep);
  StoreLittleEndian(std::bit_cast<uint64_t>(message.value), to + kValue);
  StoreLittleEndian(static_cast<uint64_t>(message.count), to + kCount);
  return bytes;
}

absl::StatusOr<ShardMessage> ParseShardMessage(
    std::span<const std::byte, kShardMessageBytes> bytes) {
  const absl::Status enums = CheckEnums(bytes);
  if (!enums.ok()) return enums;
  const std::byte* const from = bytes.data();
  ShardMessage message;
  message.op = static_cast<ShardOp>(At(bytes, kOp));
  message.part = static_cast<StatePart>(At(bytes, kPart));
  message.done = static_cast<DoneKind>(At(bytes, kDone));
  message.wire = static_cast<DType>(At(bytes, kWire));
  message.wants_drain = At(bytes, kDrain) == 1;
  message.shard =
      static_cast<int32_t>(LoadLittleEndian<uint32_t>(from + kShard));
  message.bucket =
      static_cast<int32_t>(LoadLittleEndian<uint32_t>(from + kBucket));
  message.rank = static_cast<int32_t>(LoadLittleEndian<uint32_t>(from + kRank));
  message.step = static_cast<int64_t>(LoadLittleEndian<uint64_t>(from + kStep));
  message.value =
      std::bit_cast<double>(LoadLittleEndian<uint64_t>(from + kValue));
  message.count =
      static_cast<int64_t>(LoadLittleEndian<uint64_t>(from + kCount));
  if (message.shard < 0 || message.bucket < -1 || message.rank < -1 ||
      message.step < 0 || message.count < 0 ||
      message.count > kMaxShardMessageElems) {
    return absl::FailedPreconditionError(
        absl::StrCat("a message about shards that cannot be: ",
                     DescribeShardMessage(message), " of rank ", message.rank));
  }
  return message;
}

std::string DescribeShardMessage(const ShardMessage& message) {
  std::string text = ShardOpName(message.op);
  if (message.bucket >= 0) {
    absl::StrAppend(&text, " of bucket ", message.bucket, " (shard ",
                    message.shard);
  } else {
    absl::StrAppend(&text, " (shard ", message.shard);
  }
  absl::StrAppend(&text, ", step ", message.step);
  if (message.count != 0) {
    absl::StrAppend(&text, ", ", message.count,
                    message.op == ShardOp::kOpen ? " bytes" : " elements");
  }
  return text + ")";
}

}  // namespace ringmaster
