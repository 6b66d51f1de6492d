#include "common/transport/frame.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/transport/little_endian.h"

namespace ringmaster {

FrameHeaderBytes EncodeFrameHeader(const FrameHeader& header) {
  FrameHeaderBytes bytes;
  std::byte* const to = bytes.data();
  StoreLittleEndian(kFrameMagic, to);
  StoreLittleEndian(kFrameVersion, to + 4);
  StoreLittleEndian(header.op, to + 6);
  StoreLittleEndian(header.dtype, to + 7);
  StoreLittleEndian(header.job, to + 8);
  StoreLittleEndian(header.generation, to + 16);
  StoreLittleEndian(header.sequence, to + 24);
  StoreLittleEndian(header.count, to + 32);
  StoreLittleEndian(header.offset, to + 40);
  StoreLittleEndian(header.source_rank, to + 48);
  StoreLittleEndian(header.step, to + 52);
  StoreLittleEndian(header.root, to + 54);
  StoreLittleEndian(header.algorithm, to + 56);
  StoreLittleEndian(header.reduction, to + 57);
  StoreLittleEndian(header.wire, to + 58);
  StoreLittleEndian(uint8_t{0}, to + 59);
  StoreLittleEndian(header.payload_bytes, to + 60);
  return bytes;
}

absl::StatusOr<FrameHeader> ParseFrameHeader(
    std::span<const std::byte, kFrameHeaderBytes> bytes) {
  const std::byte* const from = bytes.data();
  const auto magic = LoadLittleEndian<uint32_t>(from);
  if (magic != kFrameMagic) {
    return absl::FailedPreconditionError(
        absl::StrFormat("not a frame: it begins with 0x%08x instead of 0x%08x",
                        magic, kFrameMagic));
  }
  const auto version = LoadLittleEndian<uint16_t>(from + 4);
  if (version != kFrameVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("frame of version ", version,
                     "; this binary speaks version ", kFrameVersion));
  }
  FrameHeader header;
  header.op = LoadLittleEndian<uint8_t>(from + 6);
  header.dtype = LoadLittleEndian<uint8_t>(from + 7);
  header.job = LoadLittleEndian<uint64_t>(from + 8);
  header.generation = LoadLittleEndian<uint64_t>(from + 16);
  header.sequence = LoadLittleEndian<uint64_t>(from + 24);
  header.count = LoadLittleEndian<uint64_t>(from + 32);
  header.offset = LoadLittleEndian<uint64_t>(from + 40);
  header.source_rank = LoadLittleEndian<uint32_t>(from + 48);
  header.step = LoadLittleEndian<uint16_t>(from + 52);
  header.root = LoadLittleEndian<uint16_t>(from + 54);
  header.algorithm = LoadLittleEndian<uint8_t>(from + 56);
  header.reduction = LoadLittleEndian<uint8_t>(from + 57);
  header.wire = LoadLittleEndian<uint8_t>(from + 58);
  header.payload_bytes = LoadLittleEndian<uint32_t>(from + 60);
  if (from[59] != std::byte{0}) {
    return absl::FailedPreconditionError(
        "frame with a byte set that is to be zero: it is damaged");
  }
  if (header.payload_bytes > kMaxFramePayloadBytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("frame claims a payload of ", header.payload_bytes,
                     " bytes; the limit is ", kMaxFramePayloadBytes));
  }
  return header;
}

absl::Status MatchFrame(const FrameHeader& expected, const FrameHeader& got,
                        int self_rank) {
  if (got == expected) [[likely]]
    return absl::OkStatus();
  struct Field {
    const char* name;
    uint64_t expected;
    uint64_t got;
  };
  // In the order of blame: the first that differs explains those after it.
  const Field fields[] = {
      {"job", expected.job, got.job},
      {"generation", expected.generation, got.generation},
      {"source rank", expected.source_rank, got.source_rank},
      {"sequence", expected.sequence, got.sequence},
      {"op", expected.op, got.op},
      {"reduction", expected.reduction, got.reduction},
      {"dtype", expected.dtype, got.dtype},
      {"wire dtype", expected.wire, got.wire},
      {"algorithm", expected.algorithm, got.algorithm},
      {"count", expected.count, got.count},
      {"root", expected.root, got.root},
      {"step", expected.step, got.step},
      {"offset", expected.offset, got.offset},
      {"payload bytes", expected.payload_bytes, got.payload_bytes},
  };
  for (const Field& field : fields) {
    if (field.expected == field.got) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "rank ", self_rank, " refused a frame of rank ", expected.source_rank,
        " at generation ", expected.generation, ", sequence ",
        expected.sequence, ": ", field.name, " is ", field.got, ", expected ",
        field.expected));
  }
  return absl::InternalError("frame headers differ in no known field");
}

}  // namespace ringmaster
