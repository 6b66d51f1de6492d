// JpegReader reads the rows of a JPEG picture in memory.
//
// libjpeg leaves an error by longjmp, which runs no destructors. So each call
// into it is in a function of its own that has no objects, and all that outlives
// the call is in this class.
// Thread-safety: thread-compatible.
#ifndef RINGMASTER_WORKER_DATA_JPEG_READER_H_
#define RINGMASTER_WORKER_DATA_JPEG_READER_H_

// jpeglib.h needs it first.
#include <cstdio>
// clang-format off
#include <jpeglib.h>
// clang-format on

#include <csetjmp>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/data/picture_file.h"

namespace ringmaster {

class JpegReader {
 public:
  JpegReader();
  ~JpegReader();
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  // In this order; after an error nothing more may be called. `file` must
  // outlive the reader.
  //   INVALID_ARGUMENT  it is no JPEG, or of a kind that is not read
  //   DATA_LOSS         it is damaged
  //   RESOURCE_EXHAUSTED  there is no memory
  [[nodiscard]] absl::Status ReadHeader(absl::Span<const uint8_t> file);
  // At 1/`shrink` (1, 2, 4 or 8) of its size, in grey or not.
  [[nodiscard]] absl::Status Start(int shrink, bool is_grey);
  [[nodiscard]] absl::Status SkipRows(int64_t count);
  // size().width * channels() bytes.
  [[nodiscard]] absl::Status ReadRow(uint8_t* row);
  // After the last row: DATA_LOSS if the file does not end with it, as where
  // damage made the decoder read too little.
  [[nodiscard]] absl::Status Finish();

  // The picture's; from Start on, at its scale.
  PictureSize size() const { return size_; }
  // From Start on: 1, 3, or 4 for CMYK as Adobe has it, inverted.
  int64_t channels() const { return info_.output_components; }

 private:
  static void Fail(j_common_ptr info);
  static void Warn(j_common_ptr info, int level);
  static void CheckScans(j_common_ptr info);

  // False after an error.
  bool TryReadHeader();
  bool TryStart();
  bool TrySkip();
  bool TryReadRow();
  bool TryFinish();
  absl::Status Error() const;

  jpeg_decompress_struct info_ = {};
  jpeg_error_mgr errors_ = {};
  jpeg_progress_mgr progress_ = {};
  std::jmp_buf jump_ = {};
  absl::Span<const uint8_t> file_;
  PictureSize size_;
  bool is_inverted_ = false;
  JDIMENSION skipped_ = 0;
  uint8_t* row_ = nullptr;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_JPEG_READER_H_
