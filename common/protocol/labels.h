// Labels: words that a worker says of itself, for jobs that ask for them, such as
// {"gpu": "h100", "zone": "a"}. Most labels of a Kubernetes node have this form, too
// (kubernetes.io/docs/concepts/overview/working-with-objects/labels); those without a
// value, or with a longer key, have not.
#ifndef RINGMASTER_COMMON_PROTOCOL_LABELS_H_
#define RINGMASTER_COMMON_PROTOCOL_LABELS_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ringmaster {

using Labels = std::map<std::string, std::string>;

inline constexpr int kMaxLabels = 32;

// Those that every worker has: kCpuDevice or kCudaDevice, and the host name that it
// reports.
inline constexpr char kDeviceLabel[] = "device";
inline constexpr char kCpuDevice[] = "cpu";
inline constexpr char kCudaDevice[] = "cuda";
inline constexpr char kHostLabel[] = "host";

// A key and a value have 1 to 63 letters, digits, '-', '_', '.' and '/', and begin and
// end with a letter or digit.
//   INVALID_ARGUMENT  one of them has not; quotes it
[[nodiscard]] absl::Status CheckLabel(std::string_view key,
                                      std::string_view value);

// Checks labels that a worker has beside those that every one has.
//   INVALID_ARGUMENT  too many, one of those, or one that CheckLabel refuses
[[nodiscard]] absl::Status CheckOwnLabels(const Labels& labels);

// Reads "gpu=h100,zone=a"; empty: none.
//   INVALID_ARGUMENT  it has another form, a key twice, or CheckOwnLabels refuses them
[[nodiscard]] absl::StatusOr<Labels> ParseLabels(std::string_view text);

// "gpu=h100, zone=a".
[[nodiscard]] std::string LabelsText(const Labels& labels);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PROTOCOL_LABELS_H_
