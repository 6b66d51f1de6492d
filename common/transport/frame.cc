#include "common/transport/frame.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/checksum/crc32c.h"
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
  StoreLittleEndian(static_cast<uint8_t>(header.integrity), to + 59);
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
  const auto integrity = LoadLittleEndian<uint8_t>(from + 59);
  if (integrity > static_cast<uint8_t>(FrameIntegrity::kAes256Gcm)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "frame of integrity ", integrity, ", which this binary does not know"));
  }
  header.integrity = static_cast<FrameIntegrity>(integrity);
  if (header.payload_bytes > kMaxFramePayloadBytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("frame claims a payload of ", header.payload_bytes,
                     " bytes; the limit is ", kMaxFramePayloadBytes));
  }
  return header;
}

FrameChecksumBytes FrameChecksums(const FrameHeaderBytes& header,
                                  std::span<const std::byte> payload) {
  FrameChecksumBytes bytes;
  StoreLittleEndian(Crc32c(payload), bytes.data());
  const uint32_t of_header =
      ExtendCrc32c(Crc32c(header), std::span<const std::byte>(bytes).first(4));
  StoreLittleEndian(of_header, bytes.data() + 4);
  return bytes;
}

absl::StatusOr<uint32_t> PayloadChecksumOf(
    std::span<const std::byte, kCheckedHeadBytes> head) {
  const std::byte* const claims = head.data() + kFrameHeaderBytes;
  const auto claimed = LoadLittleEndian<uint32_t>(claims + 4);
  const uint32_t actual = Crc32c(head.first(kCheckedHeadBytes - 4));
  if (claimed == actual) [[likely]]
    return LoadLittleEndian<uint32_t>(claims);
  return absl::UnavailableError(absl::StrFormat(
      "its header has the checksum 0x%08x and claims 0x%08x", actual, claimed));
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
      {"integrity", static_cast<uint64_t>(expected.integrity),
       static_cast<uint64_t>(got.integrity)},
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
