#include "worker/data/picture_crop.h"

#include <algorithm>
#include <cmath>

#include "common/plan/counter_random.h"

namespace ringmaster {
namespace {

constexpr int kDraws = 10;
constexpr double kLeastAspect = 3.0 / 4;
constexpr double kMostAspect = 4.0 / 3;

// The middle box with these sides, rounded, of at least a pixel.
PixelBox MiddleBox(PictureSize picture, double height, double width) {
  const auto side = [](double wanted, int64_t most) {
    return std::clamp<int64_t>(std::llround(wanted), 1, most);
  };
  const int64_t rows = side(height, picture.height);
  const int64_t columns = side(width, picture.width);
  return {(picture.height - rows) / 2, (picture.width - columns) / 2, rows,
          columns};
}

}  // namespace

PixelBox MiddleCrop(PictureSize picture, PictureSize target, double share) {
  const double aspect =
      static_cast<double>(target.width) / static_cast<double>(target.height);
  const double height = std::min(static_cast<double>(picture.height),
                                 static_cast<double>(picture.width) / aspect);
  return MiddleBox(picture, share * height, share * height * aspect);
}

PixelBox RandomCrop(PictureSize picture, double least_area, uint64_t key) {
  const auto height = static_cast<double>(picture.height);
  const auto width = static_cast<double>(picture.width);
  uint64_t counter = 0;
  const auto draw = [&] { return UnitInterval(CounterRandom(key, counter++)); };
  for (int i = 0; i < kDraws; ++i) {
    const double area =
        height * width * (least_area + (1 - least_area) * draw());
    const double aspect =
        kLeastAspect * std::exp(std::log(kMostAspect / kLeastAspect) * draw());
    const int64_t rows = std::llround(std::sqrt(area / aspect));
    const int64_t columns = std::llround(std::sqrt(area * aspect));
    if (rows < 1 || columns < 1 || rows > picture.height ||
        columns > picture.width)
      continue;
    const auto place = [&](int64_t room) {
      return static_cast<int64_t>(draw() * static_cast<double>(room + 1));
    };
    const int64_t top = place(picture.height - rows);
    return {top, place(picture.width - columns), rows, columns};
  }
  return MiddleBox(picture, std::min(height, width / kLeastAspect),
                   std::min(width, height * kMostAspect));
}

}  // namespace ringmaster
