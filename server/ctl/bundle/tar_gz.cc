#include "server/ctl/bundle/tar_gz.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "common/status/check.h"

namespace ringmaster::ctl {
namespace {

constexpr size_t kBlock = 512;

// The header of POSIX.1-1988 ("ustar"); numbers are octal digits.
struct Header {
  char name[100];
  char mode[8];
  char uid[8];
  char gid[8];
  char size[12];
  char mtime[12];
  char checksum[8];
  char type;
  char link_name[100];
  char magic[6];
  char version[2];
  char user[32];
  char group[32];
  char device_major[8];
  char device_minor[8];
  char prefix[155];
  char padding[12];
};
static_assert(sizeof(Header) == kBlock);

template <size_t kSize>
void Set(char (&field)[kSize], std::string_view text) {
  std::memcpy(field, text.data(), std::min(kSize, text.size()));
}

template <size_t kSize>
void SetOctal(char (&field)[kSize], uint64_t value) {
  Set(field, absl::StrFormat("%0*o", static_cast<int>(kSize - 1), value));
}

std::string HeaderOf(std::string_view name, size_t size, absl::Time time) {
  Header header = {};
  Set(header.name, name);
  SetOctal(header.mode, 0644);
  SetOctal(header.uid, 0);
  SetOctal(header.gid, 0);
  SetOctal(header.size, size);
  SetOctal(header.mtime, static_cast<uint64_t>(
                             std::max<int64_t>(absl::ToUnixSeconds(time), 0)));
  header.type = '0';
  Set(header.magic, std::string_view("ustar\0", 6));
  Set(header.version, "00");
  // The sum of all bytes, where those of the sum itself count as blanks.
  std::memset(header.checksum, ' ', sizeof(header.checksum));
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  uint64_t sum = 0;
  for (const char byte : bytes) sum += static_cast<unsigned char>(byte);
  const std::string digits =
      absl::StrFormat("%06o", sum) + std::string("\0 ", 2);
  bytes.replace(offsetof(Header, checksum), digits.size(), digits);
  return bytes;
}

}  // namespace

void TarGz::Add(std::string_view name, std::string_view content) {
  RM_CHECK(!name.empty() && name.size() <= kMaxName,
           "a name in an archive is neither empty nor too long");
  tar_ += HeaderOf(name, content.size(), time_);
  tar_ += content;
  tar_.append((kBlock - content.size() % kBlock) % kBlock, '\0');
}

absl::StatusOr<std::string> TarGz::Finish() {
  tar_.append(2 * kBlock, '\0');
  constexpr int kGzip = 16;  // zlib: a gzip header around the stream
  z_stream stream = {};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED,
                   MAX_WBITS + kGzip, MAX_MEM_LEVEL,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    return absl::ResourceExhaustedError("no memory to compress the archive");
  }
  std::string archive(deflateBound(&stream, tar_.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(tar_.data());
  stream.avail_in = static_cast<uInt>(tar_.size());
  stream.next_out = reinterpret_cast<Bytef*>(archive.data());
  stream.avail_out = static_cast<uInt>(archive.size());
  const int result = deflate(&stream, Z_FINISH);
  archive.resize(stream.total_out);
  deflateEnd(&stream);
  RM_CHECK(result == Z_STREAM_END, "deflateBound is a bound");
  return archive;
}

}  // namespace ringmaster::ctl
