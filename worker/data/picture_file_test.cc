// Tests the decoding of files that libpng and libjpeg made: of every form that
// is read, parts of them, and damaged ones.
#include "worker/data/picture_file.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/data/testing/data_files.h"
#include "worker/data/testing/picture_files.h"

namespace ringmaster {
namespace {

constexpr PictureSize kSize = {61, 83};

PixelBox All(PictureSize size) { return {0, 0, size.height, size.width}; }

absl::Status Decode(const std::string& file, const DecodeOptions& options,
                    absl::FunctionRef<PixelBox(PictureSize)> box_of,
                    PicturePart& part) {
  return DecodePicture(
      {reinterpret_cast<const uint8_t*>(file.data()), file.size()}, options,
      box_of, part);
}

Picture DecodeAll(const std::string& file, int64_t channels) {
  PicturePart part;
  const absl::Status status = Decode(
      file, {.channels = channels, .least = {1 << 20, 1 << 20}}, All, part);
  EXPECT_TRUE(status.ok()) << status;
  return part.picture;
}

// As ITU-R BT.601 has it.
Picture Grey(const Picture& rgb) {
  Picture grey = {rgb.size, 1, {}};
  for (size_t i = 0; i + 2 < rgb.pixels.size(); i += 3) {
    grey.pixels.push_back(static_cast<uint8_t>(
        std::lround(0.299 * rgb.pixels[i] + 0.587 * rgb.pixels[i + 1] +
                    0.114 * rgb.pixels[i + 2])));
  }
  return grey;
}

Picture InRgb(const Picture& grey) {
  Picture rgb = {grey.size, 3, {}};
  for (const uint8_t value : grey.pixels)
    rgb.pixels.insert(rgb.pixels.end(), 3, value);
  return rgb;
}

void ExpectNear(const Picture& got, const Picture& want, int tolerance) {
  ASSERT_EQ(got.size, want.size);
  ASSERT_EQ(got.channels, want.channels);
  ASSERT_EQ(got.pixels.size(), want.pixels.size());
  int most = 0;
  for (size_t i = 0; i < want.pixels.size(); ++i)
    most = std::max(most, std::abs(got.pixels[i] - want.pixels[i]));
  EXPECT_LE(most, tolerance);
}

TEST(PictureFileTest, PngOfAnyFormHasItsPixels) {
  const Picture rgb = SmoothPicture(kSize, 3);
  const Picture grey = SmoothPicture(kSize, 1);
  for (const int depth : {8, 16}) {
    for (const bool is_interlaced : {false, true}) {
      for (const bool has_alpha : {false, true}) {
        const PngForm form = {depth, is_interlaced, has_alpha};
        ExpectNear(DecodeAll(PngFile(rgb, form), 3), rgb, 0);
        ExpectNear(DecodeAll(PngFile(rgb, form), 1), Grey(rgb), 1);
        ExpectNear(DecodeAll(PngFile(grey, form), 3), InRgb(grey), 0);
        ExpectNear(DecodeAll(PngFile(grey, form), 1), grey, 0);
      }
    }
  }
  ExpectNear(DecodeAll(PalettePngFile(grey), 3), InRgb(grey), 0);
  ExpectNear(DecodeAll(PalettePngFile(grey), 1), grey, 0);
}

TEST(PictureFileTest, JpegOfAnyFormIsNearItsPixels) {
  const Picture rgb = SmoothPicture(kSize, 3);
  const Picture grey = SmoothPicture(kSize, 1);
  for (const bool is_progressive : {false, true}) {
    const JpegForm form = {.quality = 100,
                           .is_progressive = is_progressive,
                           .is_subsampled = false};
    ExpectNear(DecodeAll(JpegFile(rgb, form), 3), rgb, 4);
    ExpectNear(DecodeAll(JpegFile(rgb, form), 1), Grey(rgb), 4);
    ExpectNear(DecodeAll(JpegFile(grey, form), 3), InRgb(grey), 4);
    ExpectNear(DecodeAll(JpegFile(grey, form), 1), grey, 4);
  }
}

TEST(PictureFileTest, CmykBecomesRgb) {
  const Picture inks = SmoothPicture(kSize, 4);
  Picture rgb = {kSize, 3, {}};
  for (size_t i = 0; i + 3 < inks.pixels.size(); i += 4) {
    for (size_t c = 0; c < 3; ++c) {
      rgb.pixels.push_back(static_cast<uint8_t>(
          std::lround(inks.pixels[i + c] * inks.pixels[i + 3] / 255.0)));
    }
  }
  const std::string file =
      JpegFile(inks, {.quality = 100, .is_subsampled = false});
  ExpectNear(DecodeAll(file, 3), rgb, 4);
  ExpectNear(DecodeAll(file, 1), Grey(rgb), 4);
  // Without Adobe's marker values are inks.
  std::string plain = file;
  const size_t marker = plain.find("Adobe");
  ASSERT_NE(marker, std::string::npos);
  plain.replace(marker, 5, "Other");
  Picture inverted = {kSize, 3, {}};
  for (size_t i = 0; i + 3 < inks.pixels.size(); i += 4) {
    for (size_t c = 0; c < 3; ++c) {
      inverted.pixels.push_back(static_cast<uint8_t>(std::lround(
          (255 - inks.pixels[i + c]) * (255 - inks.pixels[i + 3]) / 255.0)));
    }
  }
  ExpectNear(DecodeAll(plain, 3), inverted, 4);
}

// Rows above a box are skipped, those below are not read.
TEST(PictureFileTest, ABoxHasThePixelsThatItHasInTheWhole) {
  const Picture rgb = SmoothPicture({120, 150}, 3);
  for (const std::string& file :
       {PngFile(rgb), PngFile(rgb, {.is_interlaced = true}), JpegFile(rgb),
        JpegFile(rgb, {.is_progressive = true}),
        JpegFile(rgb, {.is_subsampled = false})}) {
    const Picture whole = DecodeAll(file, 3);
    for (const PixelBox& box :
         {PixelBox{37, 41, 50, 61}, PixelBox{70, 0, 50, 150},
          PixelBox{119, 41, 1, 61}}) {
      PicturePart part;
      ASSERT_TRUE(Decode(
                      file, {.channels = 3, .least = {120, 150}},
                      [&](PictureSize size) {
                        EXPECT_EQ(size, rgb.size);
                        return box;
                      },
                      part)
                      .ok());
      ASSERT_EQ(part.picture.size, (PictureSize{box.height, box.width}));
      EXPECT_EQ(part.top, 0);
      EXPECT_EQ(part.left, 0);
      EXPECT_EQ(part.height, box.height);
      EXPECT_EQ(part.width, box.width);
      for (int64_t y = 0; y < box.height; ++y) {
        const auto row =
            whole.pixels.begin() + ((box.top + y) * 150 + box.left) * 3;
        EXPECT_TRUE(std::equal(row, row + box.width * 3,
                               part.picture.pixels.begin() + y * box.width * 3))
            << "row " << y;
      }
    }
  }
}

TEST(PictureFileTest, ALargeJpegIsDecodedSmaller) {
  const Picture rgb = SmoothPicture({400, 604}, 3);
  const std::string file = JpegFile(rgb);
  PicturePart part;
  const auto box = [](PictureSize) -> PixelBox { return {3, 6, 390, 590}; };
  ASSERT_TRUE(
      Decode(file, {.channels = 3, .least = {90, 100}}, box, part).ok());
  EXPECT_EQ(part.picture.size, (PictureSize{99, 148}));  // at a quarter
  EXPECT_EQ(part.top, 0.75);
  EXPECT_EQ(part.left, 0.5);
  EXPECT_EQ(part.height, 97.5);
  EXPECT_EQ(part.width, 147.5);
  // Pixel (y, x) is the mean of 4 x 4.
  double error = 0;
  for (int64_t y = 0; y < 99; ++y) {
    for (int64_t x = 0; x < 147; ++x) {
      double mean = 0;
      for (int64_t i = 0; i < 16; ++i) {
        mean += rgb.pixels[static_cast<size_t>(
                    ((4 * y + i / 4) * 604 + 4 * (x + 1) + i % 4) * 3)] /
                16.0;
      }
      const double got =
          part.picture.pixels[static_cast<size_t>((y * 148 + x) * 3)];
      error = std::max(error, std::abs(got - mean));
    }
  }
  EXPECT_LT(error, 6);
  ASSERT_TRUE(Decode(file, {.channels = 3, .least = {1, 1}}, All, part).ok());
  EXPECT_EQ(part.picture.size, (PictureSize{50, 76}));  // an eighth, rounded up
}

TEST(PictureFileTest, DamageIsAnError) {
  const Picture rgb = SmoothPicture(kSize, 3);
  PicturePart part;
  for (const std::string& file :
       {PngFile(rgb), PngFile(rgb, {.is_interlaced = true}), JpegFile(rgb),
        JpegFile(rgb, {.is_progressive = true})}) {
    for (const size_t size :
         {file.size() / 2, file.size() - 40, size_t{30}, size_t{8}}) {
      ExpectError(Decode(file.substr(0, size), {.channels = 3}, All, part),
                  absl::StatusCode::kDataLoss, "is damaged: ");
    }
  }
  std::string png = PngFile(rgb);
  png[png.size() / 2] ^= 1;
  ExpectError(Decode(png, {.channels = 3}, All, part),
              absl::StatusCode::kDataLoss, "the PNG is damaged: ");
  // It can be used again.
  ASSERT_TRUE(
      Decode(PngFile(rgb), {.channels = 3, .least = kSize}, All, part).ok());
  ExpectNear(part.picture, rgb, 0);
}

// Zeros are codes like others, of which too many or too few remain.
TEST(PictureFileTest, MostDamageWithinAJpegShows) {
  const std::string whole =
      JpegFile(RoughPicture({600, 800}, 3), {.quality = 90});
  const size_t scan = whole.find("\xff\xda") + 16;
  const size_t places = 50;
  const size_t distance = (whole.size() - scan - 4096) / places;
  PicturePart part;
  ASSERT_TRUE(
      Decode(whole, {.channels = 3, .least = {600, 800}}, All, part).ok());
  size_t reported = 0;
  for (size_t i = 0; i < places; ++i) {
    std::string file = whole;
    file.replace(scan + i * distance, 4096, 4096, '\0');
    const absl::Status status =
        Decode(file, {.channels = 3, .least = {600, 800}}, All, part);
    if (status.ok()) continue;
    ExpectError(status, absl::StatusCode::kDataLoss, "is damaged: ");
    ++reported;
  }
  EXPECT_GE(reported, 40u);
}

TEST(PictureFileTest, BytesThatAreLeftOverAreDamage) {
  std::string file = JpegFile(SmoothPicture(kSize, 3));
  file.insert(file.size() - 2, 100, 'x');
  PicturePart part;
  ExpectError(Decode(file, {.channels = 3}, All, part),
              absl::StatusCode::kDataLoss, "extraneous bytes");
  // Above them nothing is known of them.
  const auto top = [](PictureSize size) -> PixelBox {
    return {0, 0, size.height / 2, size.width};
  };
  EXPECT_TRUE(Decode(file, {.channels = 3}, top, part).ok());
}

TEST(PictureFileTest, OtherFilesAreRefused) {
  PicturePart part;
  for (const char* const file : {"", "GIF89a", "\x89PNG\r\n", "\xff"}) {
    ExpectError(Decode(file, {.channels = 3}, All, part),
                absl::StatusCode::kInvalidArgument,
                "it is neither a JPEG nor a PNG picture");
  }
}

TEST(PictureFileTest, APictureOfTooManyPixelsIsNotDecoded) {
  const Picture rgb = SmoothPicture(kSize, 3);
  PicturePart part;
  for (const std::string& file : {PngFile(rgb), JpegFile(rgb)}) {
    ExpectError(
        Decode(file, {.channels = 3, .max_pixels = 61 * 83 - 1}, All, part),
        absl::StatusCode::kInvalidArgument,
        "83 x 61 pixels, more than the 5062 that are read");
    EXPECT_TRUE(
        Decode(file, {.channels = 3, .max_pixels = 61 * 83}, All, part).ok());
  }
  // A header alone says that it has 65500 x 65500.
  std::string huge = JpegFile(rgb);
  const size_t frame = huge.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  huge.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  ExpectError(Decode(huge, {.channels = 3}, All, part),
              absl::StatusCode::kInvalidArgument, "65500 x 65500 pixels");
}

// The same scan may come any number of times.
TEST(PictureFileTest, AJpegOfEndlessScansIsNotDecoded) {
  const std::string file =
      JpegFile(SmoothPicture(kSize, 1), {.is_progressive = true});
  const size_t table = file.find("\xff\xc4");
  const size_t next = file.find("\xff\xc4", file.find("\xff\xda"));
  const std::string scan = file.substr(table, next - table);
  std::string endless = file.substr(0, file.size() - 2);
  for (int i = 0; i < 200; ++i) endless += scan;
  PicturePart part;
  ExpectError(Decode(endless + "\xff\xd9", {.channels = 3}, All, part),
              absl::StatusCode::kInvalidArgument, "more than the 100 scans");
}

}  // namespace
}  // namespace ringmaster
