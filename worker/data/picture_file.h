// Pictures in files: JPEG (libjpeg-turbo) and PNG (libpng), told apart by their
// first bytes.
//
// Grey, palette, RGB and CMYK pictures of any depth become bytes of RGB, or of
// grey (ITU-R BT.601). Transparency is ignored, and so is an orientation in
// EXIF. Any bytes are fine. Damage that shows is an error, not grey pixels: a
// file that ends early, a wrong checksum, a code that there is not, data left
// over. Not guaranteed: that damage within a JPEG shows; it has no checksums, and
// other bits may be the codes of another picture. Errors do not name the file.
// Thread-safety: pure.
// Example:
//   PicturePart part;
//   RETURN_IF_ERROR(DecodePicture(bytes, {.channels = 3, .least = {224, 224}},
//                                 [](PictureSize size) -> PixelBox {
//                                   return {0, 0, size.height, size.width};
//                                 }, part));
#ifndef RINGMASTER_WORKER_DATA_PICTURE_FILE_H_
#define RINGMASTER_WORKER_DATA_PICTURE_FILE_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"

namespace ringmaster {

struct PictureSize {
  int64_t height = 0;
  int64_t width = 0;

  friend bool operator==(const PictureSize&, const PictureSize&) = default;
};

// Whole pixels of a picture.
struct PixelBox {
  int64_t top = 0;
  int64_t left = 0;
  int64_t height = 0;
  int64_t width = 0;

  friend bool operator==(const PixelBox&, const PixelBox&) = default;
};

// Row by row, channels innermost.
struct Picture {
  PictureSize size;
  int64_t channels = 0;
  std::vector<uint8_t> pixels;
};

// A box of a picture that may have been decoded at a smaller scale.
struct PicturePart {
  Picture picture;  // the box, and the rest of pixels that it cuts
  // The box in `picture`, in pixels.
  double top = 0;
  double left = 0;
  double height = 0;
  double width = 0;
};

// A small file may say that it has many pixels.
inline constexpr int64_t kMaxPicturePixels = int64_t{1} << 26;

struct DecodeOptions {
  int64_t channels = 3;  // 1 or 3
  // A JPEG is decoded at the smallest of 1/1, 1/2, 1/4 and 1/8 of its size at
  // which the box is no smaller than this.
  PictureSize least = {1, 1};
  int64_t max_pixels = kMaxPicturePixels;
};

// Decodes the box that `box_of` chooses by the picture's size, which must lie in
// it and not be empty. `part` may have been used before, which saves time.
//   INVALID_ARGUMENT  this is no such picture, or has more than max_pixels
//   DATA_LOSS         it is damaged (below the box that may remain unseen)
//   RESOURCE_EXHAUSTED  there is no memory
[[nodiscard]] absl::Status DecodePicture(
    absl::Span<const uint8_t> file, const DecodeOptions& options,
    absl::FunctionRef<PixelBox(PictureSize)> box_of, PicturePart& part);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_PICTURE_FILE_H_
