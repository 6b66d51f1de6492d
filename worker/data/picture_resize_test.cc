// Tests crops and the resizing of pictures, against the formulas as they stand.
#include "worker/data/picture_resize.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "common/tensor/cpu_dispatch.h"
#include "gtest/gtest.h"
#include "worker/data/picture_crop.h"
#include "worker/data/testing/picture_files.h"

namespace ringmaster {
namespace {

// The weight of pixel `i` in pixel `at` of a side.
double Weight(int64_t i, double begin, double length, int64_t size,
              int64_t at) {
  const double scale = length / static_cast<double>(size);
  const double center = begin + (static_cast<double>(at) + 0.5) * scale;
  const double reach = std::max(1.0, scale);
  return std::max(0.0,
                  1 - std::abs(static_cast<double>(i) + 0.5 - center) / reach);
}

std::vector<double> Naive(const PicturePart& part, PictureSize size) {
  const Picture& from = part.picture;
  std::vector<double> out;
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x) {
      for (int64_t c = 0; c < from.channels; ++c) {
        double sum = 0;
        double weights = 0;
        for (int64_t i = 0; i < from.size.height; ++i) {
          const double row = Weight(i, part.top, part.height, size.height, y);
          if (row == 0) continue;
          for (int64_t j = 0; j < from.size.width; ++j) {
            const double weight =
                row * Weight(j, part.left, part.width, size.width, x);
            weights += weight;
            sum += weight * from.pixels[static_cast<size_t>(
                                (i * from.size.width + j) * from.channels + c)];
          }
        }
        out.push_back(sum / weights);
      }
    }
  }
  return out;
}

std::vector<uint8_t> Resize(const PicturePart& part, PictureSize size,
                            bool is_flipped = false) {
  ResizeScratch scratch;
  std::vector<uint8_t> out(
      static_cast<size_t>(size.height * size.width * part.picture.channels));
  ResizePart(part, size, is_flipped, scratch, out.data());
  return out;
}

PicturePart Whole(PictureSize size, int64_t channels) {
  return {SmoothPicture(size, channels), 0, 0, static_cast<double>(size.height),
          static_cast<double>(size.width)};
}

TEST(PictureResizeTest, IsTheWeightedMeanOfWhatAPixelCovers) {
  std::vector<PicturePart> parts;
  for (const int64_t channels : {1, 3}) {
    parts.push_back(Whole({40, 53}, channels));
    parts.push_back(Whole({7, 5}, channels));
    parts.push_back(Whole({1, 1}, channels));
    parts.push_back(Whole({1, 90}, channels));
    PicturePart cut = Whole({40, 53}, channels);
    cut.top = 0.75;
    cut.left = 0.5;
    cut.height = 38.5;
    cut.width = 52.25;
    parts.push_back(cut);
  }
  for (const PicturePart& part : parts) {
    for (const PictureSize size :
         {PictureSize{11, 13}, PictureSize{40, 53}, PictureSize{60, 9}}) {
      const std::vector<double> want = Naive(part, size);
      const std::vector<uint8_t> got = Resize(part, size);
      double most = 0;
      for (size_t i = 0; i < want.size(); ++i)
        most = std::max(most, std::abs(got[i] - want[i]));
      EXPECT_LE(most, 0.6) << part.picture.size.height << " x "
                           << part.picture.size.width << " to " << size.height
                           << " x " << size.width;
    }
  }
}

// Hundreds of weights, each of them rounded.
TEST(PictureResizeTest, AStrongReductionIsStillTheWeightedMean) {
  for (const PictureSize from : {PictureSize{8, 8192}, PictureSize{8192, 8}}) {
    const PicturePart part = {RoughPicture(from, 1), 0, 0,
                              static_cast<double>(from.height),
                              static_cast<double>(from.width)};
    const PictureSize size = {std::min<int64_t>(from.height, 64),
                              std::min<int64_t>(from.width, 64)};
    const std::vector<double> want = Naive(part, size);
    const std::vector<uint8_t> got = Resize(part, size);
    double most = 0;
    for (size_t i = 0; i < want.size(); ++i)
      most = std::max(most, std::abs(got[i] - want[i]));
    EXPECT_LE(most, 0.7);
  }
}

TEST(PictureResizeTest, OfTheSameSizeIsThePictureItself) {
  const PicturePart part = Whole({17, 23}, 3);
  EXPECT_EQ(Resize(part, part.picture.size), part.picture.pixels);
}

TEST(PictureResizeTest, FlippedIsMirrored) {
  const PicturePart part = Whole({30, 40}, 3);
  const std::vector<uint8_t> plain = Resize(part, {9, 11});
  const std::vector<uint8_t> flipped = Resize(part, {9, 11}, true);
  for (size_t y = 0; y < 9; ++y) {
    for (size_t x = 0; x < 11; ++x) {
      for (size_t c = 0; c < 3; ++c) {
        EXPECT_EQ(flipped[(y * 11 + x) * 3 + c],
                  plain[(y * 11 + 10 - x) * 3 + c]);
      }
    }
  }
}

TEST(PictureResizeTest, AllProcessorsGetTheSameBytes) {
  const PicturePart part = Whole({131, 97}, 3);
  const std::vector<uint8_t> bytes = Resize(part, {64, 64});
  for (const CpuIsa isa : {CpuIsa::kBaseline, CpuIsa::kAvx2}) {
    const ScopedIsaCap cap(isa);
    EXPECT_EQ(Resize(part, {64, 64}), bytes);
  }
}

TEST(PictureCropTest, TheMiddleHasTheTargetsRatio) {
  EXPECT_EQ(MiddleCrop({375, 500}, {224, 224}, 0.875),
            (PixelBox{23, 86, 328, 328}));
  EXPECT_EQ(MiddleCrop({500, 375}, {224, 224}, 1), (PixelBox{62, 0, 375, 375}));
  EXPECT_EQ(MiddleCrop({100, 100}, {50, 100}, 1), (PixelBox{25, 0, 50, 100}));
  EXPECT_EQ(MiddleCrop({1, 1}, {224, 224}, 0.1), (PixelBox{0, 0, 1, 1}));
}

TEST(PictureCropTest, RandomBoxesHaveTheAreaAndTheRatioThatAreWanted) {
  const PictureSize size = {375, 500};
  double area = 0;
  double log_aspect = 0;
  double middle = 0;
  constexpr int kDraws = 20000;
  for (uint64_t key = 0; key < kDraws; ++key) {
    const PixelBox box = RandomCrop(size, 0.08, key);
    EXPECT_EQ(box, RandomCrop(size, 0.08, key));
    ASSERT_GE(box.top, 0);
    ASSERT_GE(box.left, 0);
    ASSERT_LE(box.top + box.height, size.height);
    ASSERT_LE(box.left + box.width, size.width);
    const double height = static_cast<double>(box.height);
    const double width = static_cast<double>(box.width);
    ASSERT_GE(height * width / (375 * 500), 0.075);
    ASSERT_GT(width / height, 0.73);
    ASSERT_LT(width / height, 1.36);
    area += height * width / (375 * 500) / kDraws;
    log_aspect += std::log(width / height) / kDraws;
    middle += (static_cast<double>(box.left) + width / 2) / 500 / kDraws;
  }
  // Draws that do not fit are drawn again: fewer are large, or high.
  EXPECT_NEAR(area, 0.433, 0.01);
  EXPECT_NEAR(log_aspect, 0.031, 0.01);
  EXPECT_NEAR(middle, 0.5, 0.01);
}

TEST(PictureCropTest, WhereNoDrawFitsTheMiddleIsTaken) {
  EXPECT_EQ(RandomCrop({10, 1000}, 0.5, 1), (PixelBox{0, 493, 10, 13}));
  EXPECT_EQ(RandomCrop({1000, 10}, 0.5, 1), (PixelBox{493, 0, 13, 10}));
  EXPECT_EQ(RandomCrop({1, 1}, 0.08, 1), (PixelBox{0, 0, 1, 1}));
}

}  // namespace
}  // namespace ringmaster
