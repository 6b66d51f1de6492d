// PngReader reads the rows of a PNG picture in memory.
//
// libpng leaves an error by longjmp; see JpegReader.
// Thread-safety: thread-compatible.
#ifndef RINGMASTER_WORKER_DATA_PNG_READER_H_
#define RINGMASTER_WORKER_DATA_PNG_READER_H_

#include <png.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/data/picture_file.h"

namespace ringmaster {

class PngReader {
 public:
  PngReader() = default;
  ~PngReader();
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  // After an error nothing more may be called. `file` must outlive the reader.
  // DATA_LOSS: it is damaged. RESOURCE_EXHAUSTED: there is no memory.
  [[nodiscard]] absl::Status ReadHeader(absl::Span<const uint8_t> file);
  // The next row of a pass, size().width * channels() bytes; of an interlaced
  // picture, those pixels of it that the pass has.
  [[nodiscard]] absl::Status ReadRow(uint8_t* row);

  // From ReadHeader on.
  PictureSize size() const { return size_; }
  int64_t channels() const { return channels_; }  // 1 or 3
  int passes() const { return passes_; }

 private:
  static void Fail(png_structp png, png_const_charp message);
  static void Ignore(png_structp /*png*/, png_const_charp /*message*/) {}
  static void Take(png_structp png, png_bytep to, size_t count);

  // False after an error.
  bool TryReadHeader();
  bool TryReadRow(uint8_t* row);
  absl::Status Error() const;

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  absl::Span<const uint8_t> rest_;
  PictureSize size_;
  int64_t channels_ = 0;
  int passes_ = 1;
  char message_[96] = {};
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_PNG_READER_H_
