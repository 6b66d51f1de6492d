#include "worker/checkpoint/testing/test_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "common/status/check.h"

namespace ringmaster {

std::string FreshDirectory() {
  std::string path = ::testing::TempDir() + "/XXXXXX";
  RM_CHECK(mkdtemp(path.data()) != nullptr, "no place for a test's files");
  return path;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteFile(const std::string& path, std::string_view content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

void FlipByte(const std::string& path, int64_t offset) {
  std::string content = ReadFile(path);
  RM_CHECK(offset < static_cast<int64_t>(content.size()), "no such byte");
  content[static_cast<size_t>(offset)] ^= 0x10;
  WriteFile(path, content);
}

std::vector<std::string> NamesIn(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string SafetensorsText(std::string_view header, std::string_view bytes) {
  const uint64_t length = header.size();
  std::string text(reinterpret_cast<const char*>(&length), sizeof(length));
  text += header;
  text += bytes;
  return text;
}

Plan PlanOf(const std::vector<TensorSpec>& specs) {
  absl::StatusOr<Plan> plan = Plan::Create("small", specs, {});
  RM_CHECK(plan.ok(), plan.status().ToString());
  return *std::move(plan);
}

Plan SmallPlan() {
  return PlanOf({{"transformer.wte.weight", {5, 3}, {}},
                 {"transformer.h.0.ln_1.bias", {3}, {}},
                 {"transformer.h.0.mlp.c_fc.weight", {3, 40}, {}}});
}

std::vector<float> ArenaOf(const Plan& plan, float base) {
  std::vector<float> arena(static_cast<size_t>(plan.total_elems()));
  for (const PlannedTensor& tensor : plan.tensors()) {
    for (int64_t i = tensor.range.begin; i < tensor.range.end(); ++i)
      arena[i] = base++;
  }
  return arena;
}

TestJob::TestJob(Plan plan_in)
    : plan(std::move(plan_in)),
      parameters(ArenaOf(plan, 1000)),
      first_moment(ArenaOf(plan, 20000)),
      second_moment(ArenaOf(plan, 300000)) {}

CheckpointContents TestJob::ContentsAt(int64_t step) const {
  CheckpointContents contents;
  contents.step = step;
  contents.plan = &plan;
  contents.parameters = parameters;
  contents.first_moment = first_moment;
  contents.second_moment = second_moment;
  contents.model_kind = "small";
  contents.model_settings = "width=3";
  contents.program_text = "seed=7";
  contents.data_fingerprint = 0xfedcba9876543210;
  contents.creation_time = absl::FromUnixSeconds(1'700'000'000);
  return contents;
}

}  // namespace ringmaster
