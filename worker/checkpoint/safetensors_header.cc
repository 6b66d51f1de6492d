#include "worker/checkpoint/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "common/text/quoted.h"
#include "nlohmann/json.hpp"

namespace ringmaster::safetensors {
namespace {

using Json = nlohmann::json;

// Tensors lie one level below the top; their lists one deeper.
constexpr int kMaxDepth = 4;
// As many as PyTorch's and NumPy's tensors have at most.
constexpr size_t kMaxDimensions = 64;

struct NamedSize {
  std::string_view name;
  int64_t bytes;
};

constexpr std::array<NamedSize, 16> kDTypes = {{
    {"BOOL", 1},
    {"U8", 1},
    {"I8", 1},
    {"F8_E5M2", 1},
    {"F8_E4M3", 1},
    {"F8_E8M0", 1},
    {"I16", 2},
    {"U16", 2},
    {"F16", 2},
    {"BF16", 2},
    {"I32", 4},
    {"U32", 4},
    {"F32", 4},
    {"F64", 8},
    {"I64", 8},
    {"U64", 8},
}};

absl::Status Malformed(std::string_view what) {
  return absl::DataLossError(
      absl::StrCat("the header is not that of safetensors: ",
                   absl::string_view(what.data(), what.size())));
}

absl::Status MalformedTensor(std::string_view name, std::string_view what) {
  return Malformed(absl::StrCat("tensor ", Quoted(name), " ",
                                absl::string_view(what.data(), what.size())));
}

// Parses `text`; nlohmann keeps the last of two members of one name without a
// word, so the names are watched on the way.
absl::StatusOr<Json> Parse(std::string_view text) {
  std::vector<std::set<std::string>> names(kMaxDepth + 1);
  std::string repeated;
  bool is_too_deep = false;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > kMaxDepth) {
      is_too_deep = true;
      return false;
    }
    if (event == Json::parse_event_t::object_start && depth < kMaxDepth) {
      names[depth + 1].clear();
    } else if (event == Json::parse_event_t::key) {
      const std::string& name = value.get_ref<const std::string&>();
      if (!names[depth].insert(name).second) repeated = name;
    }
    return true;
  };
  Json json = Json::parse(text.begin(), text.end(), watch,
                          /*allow_exceptions=*/false);
  if (!repeated.empty())
    return Malformed(absl::StrCat(Quoted(repeated), " comes twice"));
  if (is_too_deep || json.is_discarded() || !json.is_object())
    return Malformed("it is not a JSON object");
  return json;
}

// A whole number in [0, 2^63).
std::optional<int64_t> SizeFrom(const Json& json) {
  if (!json.is_number_unsigned()) return std::nullopt;
  const auto value = json.get<uint64_t>();
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return std::nullopt;
  return static_cast<int64_t>(value);
}

std::optional<std::vector<int64_t>> SizesFrom(const Json& json,
                                              const char* member) {
  const auto found = json.find(member);
  if (found == json.end() || !found->is_array()) return std::nullopt;
  std::vector<int64_t> sizes;
  for (const Json& item : *found) {
    const std::optional<int64_t> size = SizeFrom(item);
    if (!size.has_value()) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

// The bytes of a tensor, or nothing if they are more than can be counted.
std::optional<int64_t> BytesOf(const HeaderEntry& entry, int64_t elem_bytes) {
  int64_t bytes = elem_bytes;
  for (const int64_t dim : entry.shape) {
    if (__builtin_mul_overflow(bytes, dim, &bytes)) return std::nullopt;
  }
  return bytes;
}

absl::StatusOr<HeaderEntry> EntryFrom(const std::string& name,
                                      const Json& json) {
  HeaderEntry entry;
  entry.name = name;
  if (!json.is_object()) return MalformedTensor(name, "is not an object");
  const auto dtype = json.find("dtype");
  if (dtype == json.end() || !dtype->is_string())
    return MalformedTensor(name, "has no dtype");
  entry.dtype = dtype->get<std::string>();
  const std::optional<int64_t> elem_bytes = ElemBytes(entry.dtype);
  if (!elem_bytes.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", Quoted(name), " has dtype ",
                     Quoted(entry.dtype), ", which is none of safetensors"));
  }
  std::optional<std::vector<int64_t>> shape = SizesFrom(json, "shape");
  if (!shape.has_value())
    return MalformedTensor(name, "has no shape that is a list of sizes");
  if (shape->size() > kMaxDimensions) {
    return MalformedTensor(
        name, absl::StrCat("has ", shape->size(), " dimensions, more than ",
                           kMaxDimensions));
  }
  entry.shape = *std::move(shape);
  const std::optional<std::vector<int64_t>> offsets =
      SizesFrom(json, "data_offsets");
  if (!offsets.has_value() || offsets->size() != 2 ||
      (*offsets)[0] > (*offsets)[1]) {
    return MalformedTensor(name,
                           "has no data_offsets that are its begin and end");
  }
  entry.begin = (*offsets)[0];
  entry.end = (*offsets)[1];
  const std::optional<int64_t> bytes = BytesOf(entry, *elem_bytes);
  if (bytes != entry.end - entry.begin) {
    return MalformedTensor(
        name, absl::StrCat(
                  "has ", entry.end - entry.begin, " bytes, but ", entry.dtype,
                  " [", absl::StrJoin(entry.shape, ","), "] takes ",
                  bytes.has_value() ? absl::StrCat(*bytes) : "too many"));
  }
  return entry;
}

}  // namespace

std::optional<int64_t> ElemBytes(std::string_view dtype) {
  for (const NamedSize& known : kDTypes) {
    if (known.name == dtype) return known.bytes;
  }
  return std::nullopt;
}

std::string_view NameOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "F32";
    case DType::kFloat64:
      return "F64";
    case DType::kFloat16:
      return "F16";
    case DType::kBFloat16:
      return "BF16";
    case DType::kInt32:
      return "I32";
    case DType::kInt64:
      return "I64";
    case DType::kUint8:
      return "U8";
  }
  CheckFailed(__FILE__, __LINE__, "dtype", "a value outside the enum");
}

std::string EncodeHeader(const Header& header) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) json[kMetadataKey] = header.metadata;
  for (const HeaderEntry& entry : header.tensors) {
    json[entry.name] = {{"dtype", entry.dtype},
                        {"shape", entry.shape},
                        {"data_offsets", {entry.begin, entry.end}}};
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<Header> DecodeHeader(std::string_view text) {
  if (text.empty() || text.front() != '{')
    return Malformed("it does not begin with '{'");
  ASSIGN_OR_RETURN(const Json json, Parse(text));
  Header header;
  for (const auto& [name, value] : json.items()) {
    if (name != kMetadataKey) {
      ASSIGN_OR_RETURN(HeaderEntry entry, EntryFrom(name, value));
      header.tensors.push_back(std::move(entry));
      continue;
    }
    if (!value.is_object()) return Malformed("__metadata__ is not an object");
    for (const auto& [key, content] : value.items()) {
      if (!content.is_string())
        return Malformed("__metadata__ holds more than texts");
      header.metadata[key] = content.get<std::string>();
    }
  }
  return header;
}

}  // namespace ringmaster::safetensors
