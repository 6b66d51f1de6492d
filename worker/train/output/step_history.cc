#include "worker/train/output/step_history.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "common/status/check.h"

namespace ringmaster {
namespace {

// The fields of a record that are real numbers, in the order in which they travel.
constexpr std::array kNumbers = {
    &StepRecord::loss, &StepRecord::gradient_norm, &StepRecord::learning_rate,
    &StepRecord::tokens_per_second, &StepRecord::samples_per_second};
constexpr std::array kSeconds = {&PhaseSeconds::data_wait,
                                 &PhaseSeconds::forward,
                                 &PhaseSeconds::backward,
                                 &PhaseSeconds::communication_wait,
                                 &PhaseSeconds::commit,
                                 &PhaseSeconds::optimizer,
                                 &PhaseSeconds::checkpoint_snapshot,
                                 &PhaseSeconds::total};
constexpr size_t kIntegers = 6;
static_assert(StepHistory::kRecordWords ==
              kNumbers.size() + kSeconds.size() + kIntegers + 1);

}  // namespace

void StepHistory::Add(const StepRecord& record) {
  ForgetAfter(record.step - 1);
  if (last_step() != record.step - 1) records_.clear();
  records_.push_back(record);
  if (records_.size() > kMostSteps) records_.pop_front();
}

void StepHistory::ForgetAfter(int64_t step) {
  while (last_step() > step) records_.pop_back();
}

std::vector<StepRecord> StepHistory::Last(size_t count) const {
  RM_CHECK(count <= records_.size(), "there are that many records");
  return {records_.end() - static_cast<ptrdiff_t>(count), records_.end()};
}

void ToWords(std::span<const StepRecord> records, std::span<int64_t> words) {
  RM_CHECK(words.size() == records.size() * StepHistory::kRecordWords,
           "there is room for the records");
  auto word = words.begin();
  for (const StepRecord& record : records) {
    *word++ = record.step;
    *word++ = record.wire_payload_bytes;
    *word++ = record.wire_theory_bytes;
    *word++ = record.world_size;
    *word++ = record.generation;
    *word++ = record.is_partial ? 1 : 0;
    *word++ = std::bit_cast<int64_t>(record.model_flops_utilization.value_or(
        std::numeric_limits<double>::quiet_NaN()));
    for (const auto number : kNumbers)
      *word++ = std::bit_cast<int64_t>(record.*number);
    for (const auto seconds : kSeconds)
      *word++ = std::bit_cast<int64_t>(record.seconds.*seconds);
  }
}

std::vector<StepRecord> FromWords(std::span<const int64_t> words) {
  std::vector<StepRecord> records(words.size() / StepHistory::kRecordWords);
  auto word = words.begin();
  for (StepRecord& record : records) {
    record.step = *word++;
    record.wire_payload_bytes = *word++;
    record.wire_theory_bytes = *word++;
    record.world_size = static_cast<int>(*word++);
    record.generation = *word++;
    record.is_partial = *word++ != 0;
    const double utilization = std::bit_cast<double>(*word++);
    if (!std::isnan(utilization)) record.model_flops_utilization = utilization;
    for (const auto number : kNumbers)
      record.*number = std::bit_cast<double>(*word++);
    for (const auto seconds : kSeconds)
      record.seconds.*seconds = std::bit_cast<double>(*word++);
  }
  return records;
}

}  // namespace ringmaster
