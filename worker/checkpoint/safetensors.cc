#include "worker/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status/annotate.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "common/text/quoted.h"
#include "worker/checkpoint/safetensors_header.h"

namespace ringmaster {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian, and elements are not swapped");

constexpr int64_t kLengthBytes = 8;
// The reference implementation's bound.
constexpr int64_t kMaxHeaderBytes = 100'000'000;
// Elements are converted in pieces of this size.
constexpr int64_t kPieceBytes = int64_t{1} << 20;

// A header of a multiple of 8 bytes lets tensors begin at one.
std::string Padded(std::string header) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return header;
}

float FromFloat16(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 0x1f;
  const uint32_t mantissa = half & 0x3ff;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

float FromBFloat16(uint16_t half) {
  return std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
}

template <typename T, typename Convert>
void ConvertAll(absl::Span<const uint8_t> bytes, float* into, Convert convert) {
  const size_t count = bytes.size() / sizeof(T);
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    into[i] = convert(value);
  }
}

}  // namespace

absl::Status WriteSafetensors(absl::Span<const TensorBytes> tensors,
                              const SafetensorsMetadata& metadata,
                              DurableFile& file) {
  safetensors::Header header;
  header.metadata = metadata;
  absl::flat_hash_set<std::string> names;
  int64_t offset = 0;
  for (const TensorBytes& tensor : tensors) {
    if (tensor.name == safetensors::kMetadataKey) {
      return absl::InvalidArgumentError(absl::StrCat(
          file.path(), ": no tensor may be called ", Quoted(tensor.name)));
    }
    if (!names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          file.path(), ": two tensors are called ", Quoted(tensor.name)));
    }
    const int64_t bytes = tensor.shape.num_elems() * SizeOf(tensor.dtype);
    if (bytes != static_cast<int64_t>(tensor.bytes.size())) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(), ": tensor ", Quoted(tensor.name),
                       " of shape ", tensor.shape.ToString(), " takes ", bytes,
                       " bytes, but has ", tensor.bytes.size()));
    }
    safetensors::HeaderEntry entry;
    entry.name = tensor.name;
    entry.dtype = safetensors::NameOf(tensor.dtype);
    for (int axis = 0; axis < tensor.shape.rank(); ++axis)
      entry.shape.push_back(tensor.shape.dim(axis));
    entry.begin = offset;
    entry.end = offset += bytes;
    header.tensors.push_back(std::move(entry));
  }
  const std::string text = Padded(safetensors::EncodeHeader(header));
  const uint64_t length = text.size();
  RETURN_IF_ERROR(file.Append(absl::MakeConstSpan(
      reinterpret_cast<const uint8_t*>(&length), sizeof(length))));
  RETURN_IF_ERROR(file.Append(text));
  for (const TensorBytes& tensor : tensors)
    RETURN_IF_ERROR(file.Append(tensor.bytes));
  return absl::OkStatus();
}

bool SafetensorsEntry::HasShape(const Shape& other) const {
  if (static_cast<int>(shape.size()) != other.rank()) return false;
  for (int axis = 0; axis < other.rank(); ++axis) {
    if (shape[axis] != other.dim(axis)) return false;
  }
  return true;
}

std::string SafetensorsEntry::ShapeText() const {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path,
                                                      DiskProgress* progress) {
  ASSIGN_OR_RETURN(InputFile input, InputFile::Open(path, progress));
  SafetensorsFile file(std::move(input));
  uint64_t length = 0;
  RETURN_IF_ERROR(file.file_.ReadAt(
      0, absl::MakeSpan(reinterpret_cast<uint8_t*>(&length), kLengthBytes)));
  if (length > static_cast<uint64_t>(kMaxHeaderBytes)) {
    return absl::DataLossError(absl::StrCat(
        path, ": the header would be ", length, " bytes long, over ",
        kMaxHeaderBytes, "; this is not a safetensors file"));
  }
  const auto header_bytes = static_cast<int64_t>(length);
  if (header_bytes > file.file_.size_bytes() - kLengthBytes) {
    return absl::DataLossError(absl::StrCat(
        path, " is cut short: it has ", file.file_.size_bytes(),
        " bytes, and a header of ", header_bytes, " bytes should fit"));
  }
  std::string text(static_cast<size_t>(header_bytes), '\0');
  RETURN_IF_ERROR(file.file_.ReadAt(
      kLengthBytes,
      absl::MakeSpan(reinterpret_cast<uint8_t*>(text.data()), text.size())));
  absl::StatusOr<safetensors::Header> header = safetensors::DecodeHeader(text);
  if (!header.ok()) return Annotate(header.status(), path);
  file.metadata_ = std::move(header->metadata);
  for (safetensors::HeaderEntry& entry : header->tensors) {
    const int64_t bytes = entry.end - entry.begin;
    const int64_t num_elems = bytes / *safetensors::ElemBytes(entry.dtype);
    file.tensors_.push_back({std::move(entry.name), std::move(entry.dtype),
                             std::move(entry.shape), num_elems, entry.begin,
                             bytes});
  }
  RETURN_IF_ERROR(file.CheckLayout(header_bytes));
  return file;
}

// Orders the tensors by their bytes, which must tile what follows the header,
// and counts their offsets from the file's beginning.
absl::Status SafetensorsFile::CheckLayout(int64_t header_bytes) {
  std::sort(tensors_.begin(), tensors_.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.size_bytes, a.name) <
           std::tie(b.begin, b.size_bytes, b.name);
  });
  const int64_t base = kLengthBytes + header_bytes;
  const int64_t available = file_.size_bytes() - base;
  int64_t expected = 0;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    SafetensorsEntry& tensor = tensors_[i];
    if (tensor.begin != expected) {
      return absl::DataLossError(absl::StrCat(
          path(), ": tensor ", Quoted(tensor.name), " begins at byte ",
          tensor.begin, " of the tensors, where ", expected, " is expected: ",
          tensor.begin < expected ? "tensors overlap" : "there is a gap"));
    }
    if (tensor.size_bytes > available - expected) {
      return absl::DataLossError(absl::StrCat(
          path(), " is cut short: tensor ", Quoted(tensor.name), " has bytes [",
          base + expected, ", ", base + expected + tensor.size_bytes,
          "), but the file has ", file_.size_bytes()));
    }
    expected += tensor.size_bytes;
    tensor.begin += base;
    index_[tensor.name] = i;
  }
  if (expected != available) {
    return absl::DataLossError(
        absl::StrCat(path(), ": ", available - expected,
                     " bytes follow the last tensor, where the file should "
                     "end"));
  }
  return absl::OkStatus();
}

const SafetensorsEntry* SafetensorsFile::Find(std::string_view name) const {
  const auto found = index_.find(absl::string_view(name.data(), name.size()));
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

absl::Status SafetensorsFile::ReadFloats(const SafetensorsEntry& tensor,
                                         int64_t first,
                                         absl::Span<float> into) const {
  RM_CHECK(first >= 0 &&
               static_cast<int64_t>(into.size()) <= tensor.num_elems - first,
           "elements that the tensor does not have");
  const bool is_half = tensor.dtype == "F16" || tensor.dtype == "BF16";
  if (tensor.dtype == "F32") {
    return file_.ReadAt(
        tensor.begin + first * static_cast<int64_t>(sizeof(float)),
        absl::MakeSpan(reinterpret_cast<uint8_t*>(into.data()),
                       into.size() * sizeof(float)));
  }
  if (!is_half && tensor.dtype != "F64") {
    return absl::InvalidArgumentError(absl::StrCat(
        path(), ": tensor ", Quoted(tensor.name), " has elements of type ",
        tensor.dtype, ", where F32, F64, F16 or BF16 is needed"));
  }
  const int64_t elem_bytes = is_half ? 2 : 8;
  std::vector<uint8_t> piece(static_cast<size_t>(std::min<int64_t>(
      kPieceBytes, static_cast<int64_t>(into.size()) * elem_bytes)));
  while (!into.empty()) {
    const auto bytes = absl::MakeSpan(piece).first(
        std::min(piece.size(), into.size() * elem_bytes));
    RETURN_IF_ERROR(file_.ReadAt(tensor.begin + first * elem_bytes, bytes));
    if (tensor.dtype == "F16") {
      ConvertAll<uint16_t>(bytes, into.data(), FromFloat16);
    } else if (tensor.dtype == "BF16") {
      ConvertAll<uint16_t>(bytes, into.data(), FromBFloat16);
    } else {
      ConvertAll<double>(bytes, into.data(),
                         [](double x) { return static_cast<float>(x); });
    }
    const size_t count = bytes.size() / elem_bytes;
    into.remove_prefix(count);
    first += static_cast<int64_t>(count);
  }
  return absl::OkStatus();
}

absl::Status SafetensorsFile::ReadBytes(const SafetensorsEntry& tensor,
                                        absl::Span<uint8_t> into) const {
  RM_CHECK(static_cast<int64_t>(into.size()) == tensor.size_bytes,
           "not the size of the tensor");
  return file_.ReadAt(tensor.begin, into);
}

}  // namespace ringmaster
