#include "worker/data/picture_file.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "worker/data/jpeg_reader.h"
#include "worker/data/png_reader.h"

namespace ringmaster {
namespace {

// The weights of Pillow, which add up to 2^16.
uint8_t Grey(int red, int green, int blue) {
  return static_cast<uint8_t>(
      (red * 19595 + green * 38470 + blue * 7471 + (1 << 15)) >> 16);
}

// Writes a row of `count` pixels of `from` channels as `to` channels. CMYK is
// that of Adobe, inverted.
void ConvertRow(const uint8_t* row, int64_t count, int64_t from, int64_t to,
                uint8_t* out) {
  if (from == to) {
    std::memcpy(out, row, static_cast<size_t>(count * to));
    return;
  }
  for (int64_t i = 0; i < count; ++i, row += from, out += to) {
    int rgb[3] = {row[0], row[0], row[0]};
    if (from >= 3) {
      const int black = from == 4 ? row[3] : 255;
      for (int c = 0; c < 3; ++c) rgb[c] = (row[c] * black + 127) / 255;
    }
    if (to == 1) {
      out[0] = Grey(rgb[0], rgb[1], rgb[2]);
    } else {
      for (int c = 0; c < 3; ++c) out[c] = static_cast<uint8_t>(rgb[c]);
    }
  }
}

absl::Status CheckSize(PictureSize size, int64_t max_pixels) {
  if (size.height < 1 || size.width < 1)
    return absl::InvalidArgumentError("the picture has no pixels");
  if (size.height > max_pixels / size.width) {
    return absl::InvalidArgumentError(
        absl::StrCat("the picture has ", size.width, " x ", size.height,
                     " pixels, more than the ", max_pixels, " that are read"));
  }
  return absl::OkStatus();
}

PixelBox ChooseBox(PictureSize size,
                   absl::FunctionRef<PixelBox(PictureSize)> box_of) {
  const PixelBox box = box_of(size);
  RM_CHECK(box.top >= 0 && box.left >= 0 && box.height > 0 && box.width > 0 &&
               box.top + box.height <= size.height &&
               box.left + box.width <= size.width,
           "a box of pixels lies in its picture");
  return box;
}

// The box at 1/`shrink` of its size, in a picture that has whole pixels of it.
// Returns these pixels' place.
PixelBox Place(const PixelBox& box, int64_t shrink, PictureSize shrunk,
               PicturePart& part) {
  const int64_t top = box.top / shrink;
  const int64_t left = box.left / shrink;
  const auto end = [shrink](int64_t at) { return (at + shrink - 1) / shrink; };
  const int64_t bottom = std::min(end(box.top + box.height), shrunk.height);
  const int64_t right = std::min(end(box.left + box.width), shrunk.width);
  const auto unit = static_cast<double>(shrink);
  part.top = static_cast<double>(box.top % shrink) / unit;
  part.left = static_cast<double>(box.left % shrink) / unit;
  part.height = static_cast<double>(box.height) / unit;
  part.width = static_cast<double>(box.width) / unit;
  return {top, left, bottom - top, right - left};
}

void MakeRoom(const PixelBox& place, int64_t channels, Picture& picture) {
  picture.size = {place.height, place.width};
  picture.channels = channels;
  picture.pixels.resize(
      static_cast<size_t>(place.height * place.width * channels));
}

// The largest of 8, 4, 2 and 1 by which the box may be divided.
int ShrinkOf(const PixelBox& box, PictureSize least) {
  for (const int shrink : {8, 4, 2}) {
    if (box.height >= shrink * least.height &&
        box.width >= shrink * least.width)
      return shrink;
  }
  return 1;
}

absl::Status DecodeJpeg(absl::Span<const uint8_t> file,
                        const DecodeOptions& options,
                        absl::FunctionRef<PixelBox(PictureSize)> box_of,
                        PicturePart& part) {
  JpegReader reader;
  RETURN_IF_ERROR(reader.ReadHeader(file));
  RETURN_IF_ERROR(CheckSize(reader.size(), options.max_pixels));
  const PixelBox box = ChooseBox(reader.size(), box_of);
  const int shrink = ShrinkOf(box, options.least);
  RETURN_IF_ERROR(reader.Start(shrink, options.channels == 1));
  const PixelBox place = Place(box, shrink, reader.size(), part);
  MakeRoom(place, options.channels, part.picture);
  RETURN_IF_ERROR(reader.SkipRows(place.top));
  std::vector<uint8_t> row(
      static_cast<size_t>(reader.size().width * reader.channels()));
  for (int64_t y = 0; y < place.height; ++y) {
    RETURN_IF_ERROR(reader.ReadRow(row.data()));
    ConvertRow(row.data() + place.left * reader.channels(), place.width,
               reader.channels(), options.channels,
               part.picture.pixels.data() + y * place.width * options.channels);
  }
  const bool is_at_end = place.top + place.height == reader.size().height;
  return is_at_end ? reader.Finish() : absl::OkStatus();
}

absl::Status DecodePng(absl::Span<const uint8_t> file,
                       const DecodeOptions& options,
                       absl::FunctionRef<PixelBox(PictureSize)> box_of,
                       PicturePart& part) {
  PngReader reader;
  RETURN_IF_ERROR(reader.ReadHeader(file));
  RETURN_IF_ERROR(CheckSize(reader.size(), options.max_pixels));
  const PixelBox box = ChooseBox(reader.size(), box_of);
  const PixelBox place = Place(box, 1, reader.size(), part);
  MakeRoom(place, options.channels, part.picture);
  // Of an interlaced picture each pass fills a part of all rows.
  const int64_t row_bytes = reader.size().width * reader.channels();
  const bool is_whole = reader.passes() > 1;
  const int64_t end = place.top + place.height;
  std::vector<uint8_t> rows(static_cast<size_t>(
      row_bytes * (is_whole ? reader.size().height : int64_t{1})));
  for (int pass = 1; pass <= reader.passes(); ++pass) {
    const bool is_last = pass == reader.passes();
    for (int64_t y = 0; y < (is_last ? end : reader.size().height); ++y) {
      uint8_t* const row = rows.data() + (is_whole ? y * row_bytes : 0);
      RETURN_IF_ERROR(reader.ReadRow(row));
      if (!is_last || y < place.top) continue;
      ConvertRow(row + place.left * reader.channels(), place.width,
                 reader.channels(), options.channels,
                 part.picture.pixels.data() +
                     (y - place.top) * place.width * options.channels);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DecodePicture(absl::Span<const uint8_t> file,
                           const DecodeOptions& options,
                           absl::FunctionRef<PixelBox(PictureSize)> box_of,
                           PicturePart& part) {
  RM_CHECK(options.channels == 1 || options.channels == 3,
           "pictures become grey or RGB");
  const std::string_view text(reinterpret_cast<const char*>(file.data()),
                              file.size());
  if (text.starts_with("\xff\xd8"))
    return DecodeJpeg(file, options, box_of, part);
  if (text.starts_with("\x89PNG\r\n\x1a\n"))
    return DecodePng(file, options, box_of, part);
  return absl::InvalidArgumentError("it is neither a JPEG nor a PNG picture");
}

}  // namespace ringmaster
