// Resizes a part of a picture, with a triangle filter that is as wide as a pixel
// of the result, or of the source if that is larger: bilinear with antialiasing,
// as Pillow and torchvision have it.
//
// Guarantees: computes in whole numbers, so that all processors get the same
// bytes. They are within 1 of the exact ones where no side becomes smaller than
// a fifteenth. Beyond that each weight of a pixel is still within 2^-14 of the
// exact one, and the sum of any neighbours' within as much.
// Thread-safety: pure, but for the scratch.
#ifndef RINGMASTER_WORKER_DATA_PICTURE_RESIZE_H_
#define RINGMASTER_WORKER_DATA_PICTURE_RESIZE_H_

#include <cstdint>
#include <vector>

#include "worker/data/picture_file.h"

namespace ringmaster {

// The pixels along one side that make up each pixel of the result.
struct ResizeWeights {
  std::vector<int32_t> first;    // [size]
  std::vector<int16_t> weights;  // [size, taps]; of each, they add up to 2^14
  int64_t taps = 0;
};

// Memory that is used again.
struct ResizeScratch {
  ResizeWeights rows;
  ResizeWeights columns;
  std::vector<int32_t> sums;
  std::vector<int16_t> row;
  std::vector<double> weights;
};

// Writes the box of `part` as [size.height, size.width, channels] to `out`,
// mirrored left to right if `is_flipped`.
void ResizePart(const PicturePart& part, PictureSize size, bool is_flipped,
                ResizeScratch& scratch, uint8_t* out);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_PICTURE_RESIZE_H_
