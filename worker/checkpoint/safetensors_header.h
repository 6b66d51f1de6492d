// The JSON header of a safetensors file, between text and values.
//
// Thread-safety: pure functions.
#ifndef RINGMASTER_WORKER_CHECKPOINT_SAFETENSORS_HEADER_H_
#define RINGMASTER_WORKER_CHECKPOINT_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/dtype.h"

namespace ringmaster::safetensors {

// The member of the header that is not a tensor.
inline constexpr char kMetadataKey[] = "__metadata__";

struct HeaderEntry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  int64_t begin = 0;  // offsets count from the end of the header
  int64_t end = 0;
};

struct Header {
  std::vector<HeaderEntry> tensors;
  std::map<std::string, std::string> metadata;
};

// Returns the bytes of one element of a dtype of the format, which has more
// dtypes than DType; nothing if it has no such dtype.
std::optional<int64_t> ElemBytes(std::string_view dtype);
// "F32" for kFloat32, ...
std::string_view NameOf(DType dtype);

// The text of the header, tensors in their order.
std::string EncodeHeader(const Header& header);

// Returns the header in `text`, tensors in the order of their names. Checks
// everything except the layout of tensors: no name comes twice, each dtype is
// one of the format, and offsets fit dtype and shape.
//   DATA_LOSS, INVALID_ARGUMENT  as SafetensorsFile::Open, without the file
[[nodiscard]] absl::StatusOr<Header> DecodeHeader(std::string_view text);

}  // namespace ringmaster::safetensors

#endif  // RINGMASTER_WORKER_CHECKPOINT_SAFETENSORS_HEADER_H_
