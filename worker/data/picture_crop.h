// Crops: the box of a picture that a model sees.
//
// Thread-safety: pure.
#ifndef RINGMASTER_WORKER_DATA_PICTURE_CROP_H_
#define RINGMASTER_WORKER_DATA_PICTURE_CROP_H_

#include <cstdint>

#include "worker/data/picture_file.h"

namespace ringmaster {

// The middle box with the sides' ratio of `target`: `share` of the largest one
// that there is.
PixelBox MiddleCrop(PictureSize picture, PictureSize target, double share);

// A random box, a function of `key`, of `least_area` to all of the picture's
// area, with sides of 3:4 to 4:3 (Szegedy et al., "Going Deeper with
// Convolutions", 2014), by the rules of torchvision's RandomResizedCrop: the
// first of ten draws that fits the picture, else the largest middle box whose
// sides have such a ratio.
PixelBox RandomCrop(PictureSize picture, double least_area, uint64_t key);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_PICTURE_CROP_H_
