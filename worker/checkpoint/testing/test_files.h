// Files, plans and arenas for tests of checkpoints.
#ifndef RINGMASTER_WORKER_CHECKPOINT_TESTING_TEST_FILES_H_
#define RINGMASTER_WORKER_CHECKPOINT_TESTING_TEST_FILES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "common/plan/plan.h"
#include "worker/checkpoint/checkpoint.h"

namespace ringmaster {

// A new, empty directory.
std::string FreshDirectory();
std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, std::string_view content);
void FlipByte(const std::string& path, int64_t offset);
// Names in a directory, sorted, hidden ones too.
std::vector<std::string> NamesIn(const std::string& directory);

// The text of a safetensors file with this header, as it is, and these bytes.
std::string SafetensorsText(std::string_view header, std::string_view bytes);

Plan PlanOf(const std::vector<TensorSpec>& specs);
// A plan of three tensors with padding between them.
Plan SmallPlan();
// Elements base, base + 1, ... in the plan's tensors, zeros in its padding.
std::vector<float> ArenaOf(const Plan& plan, float base);

// A job after `step`, all its arenas filled with values of their own.
struct TestJob {
  explicit TestJob(Plan plan_in = SmallPlan());
  CheckpointContents ContentsAt(int64_t step) const;

  Plan plan;
  std::vector<float> parameters;
  std::vector<float> first_moment;
  std::vector<float> second_moment;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_CHECKPOINT_TESTING_TEST_FILES_H_
