#include "worker/data/idx_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/files/file_roots.h"
#include "common/status/status_macros.h"
#include "common/transport/unique_fd.h"
#include "worker/data/data_file.h"

namespace ringmaster {
namespace {

constexpr uint32_t kImagesMagic = 0x00000803;
constexpr uint32_t kLabelsMagic = 0x00000801;
// Files are read in pieces of this size.
constexpr int64_t kReadBytes = int64_t{1} << 20;

absl::Status Refuse(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
}

// A file's bytes, uncompressed if it is one of gzip's.
class ByteReader {
 public:
  static absl::StatusOr<ByteReader> Open(const std::string& path) {
    const UniqueFd fd = ProcessFiles().OpenFile(path, O_RDONLY);
    if (!fd.is_open()) return FileError(path, errno);
    struct stat status;
    if (fstat(fd.get(), &status) != 0) return FileError(path, errno);
    if (!S_ISREG(status.st_mode)) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot read ", path, ": it is not a regular file"));
    }
    // gzdopen owns what it gets, if it succeeds.
    const int copy = fcntl(fd.get(), F_DUPFD_CLOEXEC, 0);
    if (copy < 0) return FileError(path, errno);
    const gzFile file = gzdopen(copy, "rb");
    if (file == nullptr) {
      close(copy);
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot read ", path, ": no memory"));
    }
    gzbuffer(file, 1 << 17);
    return ByteReader(path, status.st_size, file);
  }

  // Reads until `into` is full or the file ends; returns how many bytes.
  absl::StatusOr<int64_t> Read(uint8_t* into, int64_t size,
                               const CancelToken* cancel) {
    int64_t done = 0;
    while (done < size) {
      RETURN_IF_ERROR(CheckNotCancelled(cancel));
      const auto piece =
          static_cast<unsigned>(std::min(size - done, kReadBytes));
      const int count = gzread(file_.get(), into + done, piece);
      int error = Z_OK;
      const char* why = gzerror(file_.get(), &error);
      // A stream that ends early is Z_BUF_ERROR, and gives what there was.
      if (count < 0 || error == Z_BUF_ERROR) return GzipError(error, why);
      if (count == 0) break;
      done += count;
    }
    return done;
  }

  // Known after the first Read. If not, file_bytes is the size of the contents.
  bool is_compressed() const { return gzdirect(file_.get()) == 0; }
  int64_t file_bytes() const { return file_bytes_; }

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };

  ByteReader(std::string path, int64_t file_bytes, gzFile file)
      : path_(std::move(path)), file_bytes_(file_bytes), file_(file) {}

  absl::Status GzipError(int error, const char* why) const {
    if (error == Z_ERRNO) return FileError(path_, errno);
    return absl::DataLossError(absl::StrCat(path_, ": damaged gzip data (", why,
                                            "); fetch the file again"));
  }

  std::string path_;
  int64_t file_bytes_;
  std::unique_ptr<gzFile_s, Close> file_;
};

// Returns a hint for files that are often given by mistake.
std::string MagicHint(uint32_t found, uint32_t expected) {
  if (found == kLabelsMagic && expected == kImagesMagic)
    return "; it is a labels file: are images and labels swapped?";
  if (found == kImagesMagic && expected == kLabelsMagic)
    return "; it is an images file: are images and labels swapped?";
  if (found >> 16 == 0x1f8b) return "; it looks like a gzip file inside gzip";
  if (found == 0x504b0304) return "; it looks like a zip file: unpack it";
  return "";
}

// Reads a header of `fields`.size() numbers that begins with `magic`.
absl::Status ReadHeader(const std::string& path, uint32_t magic,
                        ByteReader& reader, absl::Span<uint32_t> fields,
                        const CancelToken* cancel) {
  std::array<uint8_t, 16> bytes = {};
  const auto size = static_cast<int64_t>(fields.size() * sizeof(uint32_t));
  ASSIGN_OR_RETURN(const int64_t count,
                   reader.Read(bytes.data(), size, cancel));
  for (size_t i = 0; i < fields.size(); ++i) {
    const uint8_t* b = bytes.data() + 4 * i;
    fields[i] = uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 |
                uint32_t{b[2]} << 8 | uint32_t{b[3]};
  }
  if (count >= 4 && fields[0] != magic) {
    return Refuse(
        path,
        absl::StrFormat("begins with 0x%08x, but IDX %s begin with "
                        "0x%08x%s",
                        fields[0], magic == kImagesMagic ? "images" : "labels",
                        magic, MagicHint(fields[0], magic)));
  }
  if (count < size) {
    return Refuse(path, absl::StrCat("has ", count,
                                     " bytes, but an IDX header has ", size));
  }
  return absl::OkStatus();
}

// Reads the `expected` bytes that make up the rest; `shape` explains their
// number.
absl::StatusOr<std::vector<uint8_t>> ReadContents(
    const std::string& path, ByteReader& reader, int64_t header_bytes,
    int64_t expected, const std::string& shape, const CancelToken* cancel) {
  const auto mismatch = [&](const std::string& found) {
    return Refuse(path,
                  absl::StrCat("expected ", expected, " bytes for ", shape,
                               ", but ", found, " follow the header"));
  };
  if (!reader.is_compressed() && reader.file_bytes() != header_bytes + expected)
    return mismatch(absl::StrCat(reader.file_bytes() - header_bytes));
  // Compressed, the header may promise anything: memory is taken for what is
  // there.
  std::vector<uint8_t> contents;
  if (!reader.is_compressed()) contents.reserve(static_cast<size_t>(expected));
  int64_t done = 0;
  while (done < expected) {
    const int64_t piece = std::min(expected - done, kReadBytes);
    contents.resize(static_cast<size_t>(done + piece));
    ASSIGN_OR_RETURN(const int64_t count,
                     reader.Read(contents.data() + done, piece, cancel));
    done += count;
    if (count < piece) return mismatch(absl::StrCat(done));
  }
  uint8_t beyond = 0;
  // This also makes zlib check the sum at the end of its data.
  ASSIGN_OR_RETURN(const int64_t more, reader.Read(&beyond, 1, cancel));
  if (more > 0) return mismatch("more");
  return contents;
}

absl::Status CheckContentsSize(const std::string& path, uint64_t count,
                               uint64_t image_bytes, int64_t max_bytes) {
  if (count == 0 || image_bytes == 0)
    return Refuse(path, "its header tells of no contents");
  // By division: the product may be more than 2^64.
  if (image_bytes > static_cast<uint64_t>(max_bytes) ||
      count > static_cast<uint64_t>(max_bytes) / image_bytes) {
    return Refuse(path,
                  absl::StrCat("its header tells of ", count, " times ",
                               image_bytes, " bytes, which is more than the ",
                               max_bytes, " that are allowed"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<IdxImages> ReadIdxImages(const std::string& path,
                                        int64_t max_bytes,
                                        const CancelToken* cancel) {
  ASSIGN_OR_RETURN(ByteReader reader, ByteReader::Open(path));
  std::array<uint32_t, 4> header = {};
  RETURN_IF_ERROR(
      ReadHeader(path, kImagesMagic, reader, absl::MakeSpan(header), cancel));
  const auto [magic, count, height, width] = header;
  const uint64_t image_bytes = uint64_t{height} * width;
  RETURN_IF_ERROR(CheckContentsSize(path, count, image_bytes, max_bytes));
  ASSIGN_OR_RETURN(
      std::vector<uint8_t> pixels,
      ReadContents(path, reader, sizeof(header),
                   static_cast<int64_t>(count * image_bytes),
                   absl::StrCat(count, " images of ", height, " x ", width),
                   cancel));
  return IdxImages{.count = count,
                   .height = height,
                   .width = width,
                   .pixels = std::move(pixels)};
}

absl::StatusOr<std::vector<uint8_t>> ReadIdxLabels(const std::string& path,
                                                   int64_t max_bytes,
                                                   const CancelToken* cancel) {
  ASSIGN_OR_RETURN(ByteReader reader, ByteReader::Open(path));
  std::array<uint32_t, 2> header = {};
  RETURN_IF_ERROR(
      ReadHeader(path, kLabelsMagic, reader, absl::MakeSpan(header), cancel));
  const int64_t count = header[1];
  RETURN_IF_ERROR(CheckContentsSize(path, header[1], 1, max_bytes));
  return ReadContents(path, reader, sizeof(header), count,
                      absl::StrCat(count, " labels"), cancel);
}

}  // namespace ringmaster
