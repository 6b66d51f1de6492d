// Pictures for tests, and the files that libpng and libjpeg make of them.
#ifndef RINGMASTER_WORKER_DATA_TESTING_PICTURE_FILES_H_
#define RINGMASTER_WORKER_DATA_TESTING_PICTURE_FILES_H_

#include <cstdint>
#include <string>

#include "worker/data/picture_file.h"

namespace ringmaster {

// Waves of all channels; each seed has others.
Picture SmoothPicture(PictureSize size, int64_t channels, int seed = 0);
// Of bytes without a pattern, always the same ones.
Picture RoughPicture(PictureSize size, int64_t channels);

struct PngForm {
  int bit_depth = 8;  // 16: each value v as 257 * v
  bool is_interlaced = false;
  bool has_alpha = false;  // besides the picture's channels; 0, 1, 2, ...
};
// Of 1 or 3 channels.
std::string PngFile(const Picture& picture, const PngForm& form = {});
// With a palette of 256 greys, of which pixels are indexes.
std::string PalettePngFile(const Picture& picture);

struct JpegForm {
  int quality = 95;
  bool is_progressive = false;
  bool is_subsampled = true;  // colours at half the resolution
};
// Of 1, 3 or, for CMYK as Adobe has it, 4 channels.
std::string JpegFile(const Picture& picture, const JpegForm& form = {});

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_TESTING_PICTURE_FILES_H_
