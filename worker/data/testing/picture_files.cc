#include "worker/data/testing/picture_files.h"

#include <png.h>

#include <cstdio>
#include <cstdlib>
// clang-format off
#include <jpeglib.h>
// clang-format on

#include <cmath>
#include <vector>

#include "common/status/check.h"

namespace ringmaster {
namespace {

// Both libraries end the program on an error: there are none.
std::string WritePng(const Picture& picture, int bit_depth, int color_type,
                     bool is_interlaced, int64_t row_bytes,
                     std::vector<uint8_t> rows) {
  png_structp png =
      png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  std::string file;
  png_set_write_fn(
      png, &file,
      [](png_structp writer, png_bytep bytes, size_t count) {
        static_cast<std::string*>(png_get_io_ptr(writer))
            ->append(reinterpret_cast<const char*>(bytes), count);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(picture.size.width),
               static_cast<png_uint_32>(picture.size.height), bit_depth,
               color_type,
               is_interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (color_type == PNG_COLOR_TYPE_PALETTE) {
    std::vector<png_color> palette(256);
    for (size_t i = 0; i < palette.size(); ++i) {
      const auto grey = static_cast<png_byte>(i);
      palette[i] = {grey, grey, grey};
    }
    png_set_PLTE(png, info, palette.data(), 256);
  }
  std::vector<png_bytep> pointers;
  for (int64_t y = 0; y < picture.size.height; ++y)
    pointers.push_back(rows.data() + y * row_bytes);
  png_set_rows(png, info, pointers.data());
  png_write_png(png, info, PNG_TRANSFORM_IDENTITY, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

}  // namespace

Picture SmoothPicture(PictureSize size, int64_t channels, int seed) {
  Picture picture = {size, channels, {}};
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x) {
      for (int64_t c = 0; c < channels; ++c) {
        const double wave =
            std::sin(0.07 * static_cast<double>(x * (c + 1)) + seed) *
            std::cos(0.05 * static_cast<double>(y * (channels - c)) - seed);
        picture.pixels.push_back(
            static_cast<uint8_t>(std::lround(127.5 + 120 * wave)));
      }
    }
  }
  return picture;
}

Picture RoughPicture(PictureSize size, int64_t channels) {
  Picture picture = {size, channels, {}};
  uint32_t state = 1;
  for (int64_t i = 0; i < size.height * size.width * channels; ++i) {
    state = state * 1664525 + 1013904223;
    picture.pixels.push_back(static_cast<uint8_t>(state >> 24));
  }
  return picture;
}

std::string PngFile(const Picture& picture, const PngForm& form) {
  RM_CHECK(picture.channels == 1 || picture.channels == 3, "grey or RGB");
  std::vector<uint8_t> rows;
  const auto put = [&](uint8_t value) {
    rows.push_back(value);
    if (form.bit_depth == 16) rows.push_back(value);
  };
  uint8_t alpha = 0;
  for (size_t i = 0; i < picture.pixels.size(); ++i) {
    put(picture.pixels[i]);
    const bool is_last = (i + 1) % static_cast<size_t>(picture.channels) == 0;
    if (form.has_alpha && is_last) put(alpha++);
  }
  const int color_type = (picture.channels == 3 ? PNG_COLOR_MASK_COLOR : 0) |
                         (form.has_alpha ? PNG_COLOR_MASK_ALPHA : 0);
  const auto row_bytes =
      static_cast<int64_t>(rows.size()) / picture.size.height;
  return WritePng(picture, form.bit_depth, color_type, form.is_interlaced,
                  row_bytes, std::move(rows));
}

std::string PalettePngFile(const Picture& picture) {
  RM_CHECK(picture.channels == 1, "an index for each pixel");
  return WritePng(picture, 8, PNG_COLOR_TYPE_PALETTE, false, picture.size.width,
                  picture.pixels);
}

std::string JpegFile(const Picture& picture, const JpegForm& form) {
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): libjpeg's
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(picture.size.width);
  info.image_height = static_cast<JDIMENSION>(picture.size.height);
  info.input_components = static_cast<int>(picture.channels);
  info.in_color_space = picture.channels == 1   ? JCS_GRAYSCALE
                        : picture.channels == 3 ? JCS_RGB
                                                : JCS_CMYK;
  jpeg_set_defaults(&info);
  if (!form.is_subsampled)
    info.comp_info[0].h_samp_factor = info.comp_info[0].v_samp_factor = 1;
  jpeg_set_quality(&info, form.quality, TRUE);
  if (form.is_progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  const int64_t row_bytes = picture.size.width * picture.channels;
  for (int64_t y = 0; y < picture.size.height; ++y) {
    auto* row = const_cast<JSAMPROW>(picture.pixels.data() + y * row_bytes);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string file(reinterpret_cast<const char*>(bytes), size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return file;
}

}  // namespace ringmaster
