// The headers that libraries and programs include most, parsed once for all of them:
// see precompiled.bzl. A file includes what it uses all the same: --config=clang
// compiles it without this.
#ifndef RINGMASTER_THIRD_PARTY_PRECOMPILED_PRODUCT_HEADERS_H_
#define RINGMASTER_THIRD_PARTY_PRECOMPILED_PRODUCT_HEADERS_H_

#include <google/protobuf/extension_set.h>
#include <google/protobuf/generated_enum_reflection.h>
#include <google/protobuf/generated_message_reflection.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/map.h>
#include <google/protobuf/message.h>
#include <google/protobuf/repeated_field.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#endif  // RINGMASTER_THIRD_PARTY_PRECOMPILED_PRODUCT_HEADERS_H_
