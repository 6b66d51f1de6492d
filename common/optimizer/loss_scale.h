// LossScale keeps float16 gradients out of the range where they vanish: the
// loss is multiplied by a number that follows the gradients' size, and
// gradients are divided by it before they are used (Micikevicius et al., "Mixed
// Precision Training", ICLR 2018, section 3.2).
//
// The scale depends only on which updates were skipped, so ranks that agree on
// those have the same scale.
// Thread-safety: a value.
#ifndef RINGMASTER_COMMON_OPTIMIZER_LOSS_SCALE_H_
#define RINGMASTER_COMMON_OPTIMIZER_LOSS_SCALE_H_

#include <cstdint>

namespace ringmaster {

class LossScale {
 public:
  static constexpr double kFirst = 65536;
  static constexpr double kLeast = 1;
  static constexpr double kMost = 1 << 24;
  // Updates in a row without an infinity, after which the scale doubles.
  static constexpr int64_t kPatience = 2000;

  // Always 1.
  LossScale() = default;
  // Begins with kFirst.
  static LossScale Dynamic() { return LossScale(kFirst, 0); }
  // The same as another rank's, or a checkpoint's. Requires IsValue(value).
  LossScale(double value, int64_t good_updates)
      : is_dynamic_(true), value_(value), good_updates_(good_updates) {}

  // Returns true if `value` is a possible scale: a power of two in [kLeast,
  // kMost].
  [[nodiscard]] static bool IsValue(double value);

  // A power of two, so that multiplying by it rounds nothing.
  [[nodiscard]] double value() const { return value_; }
  [[nodiscard]] bool is_dynamic() const { return is_dynamic_; }
  // Returns true if a skipped update lowers the scale: then the skip is part of
  // finding the right scale, and not a fault.
  [[nodiscard]] bool can_fall() const { return is_dynamic_ && value_ > kLeast; }
  // Good updates since the scale last changed.
  [[nodiscard]] int64_t good_updates() const { return good_updates_; }

  // Notes an update that was made, or skipped because the gradient was not
  // finite. A skipped one halves the scale; kPatience good ones double it.
  void Note(bool is_finite);

  friend bool operator==(const LossScale&, const LossScale&) = default;

 private:
  bool is_dynamic_ = false;
  double value_ = 1;
  int64_t good_updates_ = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_OPTIMIZER_LOSS_SCALE_H_
