// FaultLog: which faults the simulation itself has caused, and whom they may
// explain, for the ledgers of all jobs.
//
// Times are virtual nanoseconds. Thread-compatible.
#ifndef RINGMASTER_TESTS_SIMULATOR_FAULT_LOG_H_
#define RINGMASTER_TESTS_SIMULATOR_FAULT_LOG_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "tests/simulator/shape.h"

namespace ringmaster::simulator {

class FaultLog {
 public:
  // Until `until`, the simulation's own faults may explain any event at this
  // process.
  void Touch(int slot, int64_t until) {
    touched_until_[slot] = std::max(touched_until_[slot], until);
  }
  void TouchAll(int64_t until) {
    for (int slot = 0; slot < kWorkers; ++slot) Touch(slot, until);
  }
  // Fault under way until then.
  void Disturb(int64_t until) { calm_since_ = std::max(calm_since_, until); }
  // Until then a worker fails without a word.
  void OnMute(int slot, int64_t until) {
    mute_slot_ = slot;
    mute_until_ = until;
  }
  // Until then one says what is not so.
  void OnLiar(int slot, int64_t until) {
    liar_slot_ = slot;
    liar_until_ = until;
  }

  [[nodiscard]] int64_t calm_since() const { return calm_since_; }
  [[nodiscard]] bool IsTouched(int slot, int64_t time) const {
    return time <= touched_until_[slot];
  }
  // Returns true if `slot` was mute within `memory` before `time`.
  [[nodiscard]] bool WasMute(int slot, int64_t time, int64_t memory) const {
    return slot == mute_slot_ && time <= mute_until_ + memory;
  }
  // Returns true if one is mute: one that alone reports it may go.
  [[nodiscard]] bool IsSomeoneMute(int64_t time) const {
    return time <= mute_until_;
  }
  // Returns true if one lies while a third is touched: an innocent one may go whom
  // both accuse.
  [[nodiscard]] bool LiesBesideAnother(int64_t time) const {
    if (time > liar_until_) return false;
    for (int slot = 0; slot < kWorkers; ++slot) {
      if (slot != liar_slot_ && IsTouched(slot, time)) return true;
    }
    return false;
  }

 private:
  static constexpr int kNobody = -2;  // no slot, and not "none" either

  std::array<int64_t, kWorkers> touched_until_ = {};
  int64_t calm_since_ = 0;
  int64_t mute_until_ = -1;
  int mute_slot_ = kNobody;
  int64_t liar_until_ = -1;
  int liar_slot_ = kNobody;
};

}  // namespace ringmaster::simulator

#endif  // RINGMASTER_TESTS_SIMULATOR_FAULT_LOG_H_
