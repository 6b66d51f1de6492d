// ModelConfig is what a job says about its model: which one, and that model's
// own settings by name.
//
// Settings are numbers, or lists of numbers. Each model reads its own with a
// SettingsReader, in its own file, so that a new model needs no change here.
// Thread-safety: values.
// Example:
//   SettingsReader settings(config);
//   const int64_t window = settings.Int("window", 16, {1, 4096});
//   const double dropout = settings.Real("dropout", 0, {0, 0.99});
//   RETURN_IF_ERROR(settings.Finish());
#ifndef RINGMASTER_WORKER_NN_MODEL_CONFIG_H_
#define RINGMASTER_WORKER_NN_MODEL_CONFIG_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ringmaster {

struct ModelConfig {
  // By name; one that is missing has its default.
  using Settings = std::map<std::string, std::vector<double>>;

  std::string kind = "mlp";  // a registered model
  Settings settings = {};

  // One line, equal for equal settings; for Plan's settings.
  std::string CanonicalText() const;
  // The inverse. INVALID_ARGUMENT if `text` is no such line.
  [[nodiscard]] static absl::StatusOr<ModelConfig> FromCanonicalText(
      const std::string& text);
};

// The token that begins and ends texts, for Hugging Face's config.json: -1 where
// tokens mean something else, or nothing is known of them. It is GPT-2's where
// the vocabulary has its size.
[[nodiscard]] int64_t EndOfTextOf(int64_t vocabulary);

// Reads a model's settings, and says which one is wrong.
class SettingsReader {
 public:
  struct IntRange {
    int64_t low;
    int64_t high;
  };
  struct RealRange {
    double low;
    double high;
  };

  // `config` must outlive the reader.
  explicit SettingsReader(const ModelConfig& config) : config_(config) {}

  // The setting `name`, or `missing` if the job has none. A value that is no
  // whole number, or outside the range, is an error that Finish returns; the
  // range's low end is returned then.
  int64_t Int(const std::string& name, int64_t missing, IntRange range);
  double Real(const std::string& name, double missing, RealRange range);
  std::vector<int64_t> Ints(const std::string& name,
                            const std::vector<int64_t>& missing,
                            IntRange range);

  // INVALID_ARGUMENT names the first bad setting as "model.<kind>.<name>", with
  // its value and its bounds, or a setting that was not asked for.
  [[nodiscard]] absl::Status Finish() const;

 private:
  const std::vector<double>* Find(const std::string& name);
  void Refuse(const std::string& name, const std::string& value,
              const std::string& bounds);

  const ModelConfig& config_;
  std::set<std::string> known_;
  absl::Status error_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_MODEL_CONFIG_H_
