// The IDX files of MNIST and its successors: images and labels, plain or
// compressed with gzip; the file itself shows which.
//
// An images file is, big-endian, magic 0x00000803, count, height and width as
// uint32, then the pixels as uint8, image by image and row by row; a labels
// file is magic 0x00000801 and count, then a uint8 each (LeCun, Cortes and
// Burges, "The MNIST database of handwritten digits").
#ifndef RINGMASTER_WORKER_DATA_IDX_FILE_H_
#define RINGMASTER_WORKER_DATA_IDX_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/transport/cancel_token.h"

namespace ringmaster {

struct IdxImages {
  int64_t count = 0;
  int64_t height = 0;
  int64_t width = 0;
  std::vector<uint8_t> pixels;  // [count, height, width]
};

// Both read the whole file; at most `max_bytes` of contents may follow the
// header. Every error is one line that names the file.
//   NOT_FOUND, PERMISSION_DENIED  FileError's
//   INVALID_ARGUMENT  another magic; fewer or more bytes than the header
//                     tells, or more than max_bytes; no contents
//   DATA_LOSS         compressed data that is damaged or ends early
//   ABORTED           `cancel`, which may be null, was cancelled
[[nodiscard]] absl::StatusOr<IdxImages> ReadIdxImages(
    const std::string& path, int64_t max_bytes, const CancelToken* cancel);
[[nodiscard]] absl::StatusOr<std::vector<uint8_t>> ReadIdxLabels(
    const std::string& path, int64_t max_bytes, const CancelToken* cancel);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_IDX_FILE_H_
