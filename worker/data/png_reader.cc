#include "worker/data/png_reader.h"

#include <cstdio>
#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace ringmaster {

PngReader::~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }

void PngReader::Fail(png_structp png, png_const_charp message) {
  auto* const reader = static_cast<PngReader*>(png_get_error_ptr(png));
  std::snprintf(reader->message_, sizeof reader->message_, "%s", message);
  png_longjmp(png, 1);
}

void PngReader::Take(png_structp png, png_bytep to, size_t count) {
  auto* const reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (count > reader->rest_.size()) png_error(png, "the file ends early");
  std::memcpy(to, reader->rest_.data(), count);
  reader->rest_.remove_prefix(count);
}

absl::Status PngReader::Error() const {
  // libpng's and zlib's words; there are no codes.
  const std::string_view text = message_;
  if (text == "Out of memory" || text.ends_with("insufficient memory"))
    return absl::ResourceExhaustedError("there is no memory for the PNG");
  return absl::DataLossError(absl::StrCat("the PNG is damaged: ", message_));
}

bool PngReader::TryReadHeader() {
  if (setjmp(png_jmpbuf(png_)) != 0) return false;
  png_set_read_fn(png_, this, Take);
  // Profiles, texts and the like may be large and are not needed.
  png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(png_, info_);
  const bool is_palette =
      png_get_color_type(png_, info_) == PNG_COLOR_TYPE_PALETTE;
  if (is_palette) png_set_palette_to_rgb(png_);
  if (!is_palette) png_set_expand_gray_1_2_4_to_8(png_);
  png_set_scale_16(png_);
  png_set_strip_alpha(png_);
  passes_ = png_set_interlace_handling(png_);
  png_read_update_info(png_, info_);
  return true;
}

bool PngReader::TryReadRow(uint8_t* row) {
  if (setjmp(png_jmpbuf(png_)) != 0) return false;
  png_read_row(png_, row, nullptr);
  return true;
}

absl::Status PngReader::ReadHeader(absl::Span<const uint8_t> file) {
  rest_ = file;
  png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, Fail, Ignore);
  if (png_ != nullptr) info_ = png_create_info_struct(png_);
  if (info_ == nullptr)
    return absl::ResourceExhaustedError("there is no memory for the PNG");
  if (!TryReadHeader()) return Error();
  size_ = {png_get_image_height(png_, info_), png_get_image_width(png_, info_)};
  channels_ = png_get_channels(png_, info_);
  return absl::OkStatus();
}

absl::Status PngReader::ReadRow(uint8_t* row) {
  return TryReadRow(row) ? absl::OkStatus() : Error();
}

}  // namespace ringmaster
