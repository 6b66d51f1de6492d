#include "worker/data/jpeg_reader.h"

#include <jerror.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace ringmaster {
namespace {

// A picture that is shown in parts has about ten scans; each of thousands in a
// small file would take as long as a whole picture.
constexpr int kMaxScans = 100;
// libjpeg keeps all coefficients of a picture that comes in scans.
constexpr long kMaxMemoryBytes = 1L << 30;  // NOLINT(google-runtime-int): its

// After these libjpeg guesses, or fills in grey, and goes on.
bool IsDamage(int code) {
  return code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER ||
         code == JWRN_HUFF_BAD_CODE || code == JWRN_ARITH_BAD_CODE ||
         code == JWRN_EXTRANEOUS_DATA || code == JWRN_MUST_RESYNC;
}

bool IsOfKind(int code) {
  return code == JERR_NO_SOI || code == JERR_SOF_UNSUPPORTED ||
         code == JERR_BAD_PRECISION || code == JERR_CONVERSION_NOTIMPL ||
         code == JERR_COMPONENT_COUNT || code == JERR_ARITH_NOTIMPL ||
         code == JERR_NO_BACKING_STORE || code == JERR_IMAGE_TOO_BIG;
}

}  // namespace

JpegReader::JpegReader() {
  info_.err = jpeg_std_error(&errors_);
  errors_.error_exit = Fail;
  errors_.emit_message = Warn;
  progress_.progress_monitor = CheckScans;
  info_.client_data = this;
}

// Does nothing where TryReadHeader got nowhere, and never fails.
JpegReader::~JpegReader() { jpeg_destroy_decompress(&info_); }

void JpegReader::Fail(j_common_ptr info) {
  std::longjmp(static_cast<JpegReader*>(info->client_data)->jump_, 1);
}

void JpegReader::Warn(j_common_ptr info, int level) {
  if (level < 0 && IsDamage(info->err->msg_code)) Fail(info);
}

void JpegReader::CheckScans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans)
    return;
  info->err->msg_code = JERR_BAD_PROGRESSION;
  Fail(info);
}

absl::Status JpegReader::Error() const {
  const int code = errors_.msg_code;
  if (code == JERR_BAD_PROGRESSION && info_.input_scan_number > kMaxScans) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the JPEG has more than the ", kMaxScans, " scans that are read"));
  }
  char text[JMSG_LENGTH_MAX] = {};
  errors_.format_message(reinterpret_cast<j_common_ptr>(
                             const_cast<jpeg_decompress_struct*>(&info_)),
                         text);
  if (code == JERR_OUT_OF_MEMORY)
    return absl::ResourceExhaustedError(absl::StrCat("the JPEG: ", text));
  if (IsOfKind(code))
    return absl::InvalidArgumentError(absl::StrCat("the JPEG: ", text));
  return absl::DataLossError(absl::StrCat("the JPEG is damaged: ", text));
}

bool JpegReader::TryReadHeader() {
  if (setjmp(jump_) != 0) return false;
  jpeg_create_decompress(&info_);  // it keeps err and client_data
  info_.mem->max_memory_to_use = kMaxMemoryBytes;
  info_.progress = &progress_;
  jpeg_mem_src(&info_, file_.data(), file_.size());
  jpeg_read_header(&info_, TRUE);
  return true;
}

bool JpegReader::TryStart() {
  if (setjmp(jump_) != 0) return false;
  jpeg_start_decompress(&info_);
  return true;
}

bool JpegReader::TrySkip() {
  if (setjmp(jump_) != 0) return false;
  jpeg_skip_scanlines(&info_, skipped_);
  return true;
}

bool JpegReader::TryReadRow() {
  if (setjmp(jump_) != 0) return false;
  jpeg_read_scanlines(&info_, &row_, 1);
  return true;
}

bool JpegReader::TryFinish() {
  if (setjmp(jump_) != 0) return false;
  jpeg_finish_decompress(&info_);
  return true;
}

absl::Status JpegReader::ReadHeader(absl::Span<const uint8_t> file) {
  file_ = file;
  if (!TryReadHeader()) return Error();
  size_ = {info_.image_height, info_.image_width};
  return absl::OkStatus();
}

absl::Status JpegReader::Start(int shrink, bool is_grey) {
  const bool is_cmyk =
      info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
  info_.out_color_space = is_cmyk   ? JCS_CMYK
                          : is_grey ? JCS_GRAYSCALE
                                    : JCS_RGB;
  info_.scale_num = 1;
  info_.scale_denom = static_cast<unsigned>(shrink);
  is_inverted_ = is_cmyk && info_.saw_Adobe_marker == 0;
  if (!TryStart()) return Error();
  size_ = {info_.output_height, info_.output_width};
  return absl::OkStatus();
}

absl::Status JpegReader::SkipRows(int64_t count) {
  skipped_ = static_cast<JDIMENSION>(count);
  return count == 0 || TrySkip() ? absl::OkStatus() : Error();
}

absl::Status JpegReader::ReadRow(uint8_t* row) {
  row_ = row;
  if (!TryReadRow()) return Error();
  if (!is_inverted_) return absl::OkStatus();
  for (int64_t i = 0; i < size_.width * channels(); ++i)
    row[i] = static_cast<uint8_t>(255 - row[i]);
  return absl::OkStatus();
}

absl::Status JpegReader::Finish() {
  return TryFinish() ? absl::OkStatus() : Error();
}

}  // namespace ringmaster
