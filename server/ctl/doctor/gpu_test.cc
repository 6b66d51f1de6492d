#include "server/ctl/doctor/gpu.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::HasSubstr;

Gpu H200() {
  return {.name = "NVIDIA H200",
          .uuid = "GPU-1",
          .bus = "0000:1B:00.0",
          .memory_bytes = int64_t{140} << 30,
          .capability = 90};
}

GpuFacts GoodFacts() {
  return {.is_wanted = true,
          .build = CudaVersions{.runtime = 13000,
                                .nccl = 22809,
                                .cudnn = 91002,
                                .cublaslt = 130100},
          .driver = {13010, ""},
          .nccl = LoadedLibrary{22902, ""},
          .cudnn = LoadedLibrary{91002, ""},
          .cublaslt = LoadedLibrary{120805, ""},
          .gpus = {H200(), H200()},
          .gpus_error = {},
          .peer_pairs = 1};
}

Finding Of(const GpuFacts& facts, std::string_view check) {
  for (const Finding& finding : GpuFindings(facts)) {
    if (finding.check == check) return finding;
  }
  ADD_FAILURE() << "no finding on " << check;
  return {};
}

void ExpectFailure(GpuFacts facts, std::string_view check,
                   const std::string& what) {
  const Finding finding = Of(facts, check);
  EXPECT_EQ(finding.level, Level::kFailure) << check;
  EXPECT_EQ(finding.code, ExitCode::kUsage) << check;
  EXPECT_THAT(finding.what, HasSubstr(what));
  EXPECT_FALSE(finding.remedy.empty());
  // If nobody asked for GPUs, it is a fact and no failure.
  facts.is_wanted = false;
  EXPECT_EQ(Of(facts, check).level, Level::kOk) << check;
}

// Expects a warning about something that workers on GPUs can do without.
void ExpectWarning(GpuFacts facts, std::string_view check,
                   const std::string& what) {
  const Finding finding = Of(facts, check);
  EXPECT_EQ(finding.level, Level::kWarning) << check;
  EXPECT_THAT(finding.what, HasSubstr(what));
  EXPECT_THAT(finding.why,
              HasSubstr("--attention=cudnn and --convolution=cudnn"));
  EXPECT_FALSE(finding.remedy.empty());
  facts.is_wanted = false;
  EXPECT_EQ(Of(facts, check).level, Level::kOk) << check;
}

TEST(GpuTest, AGoodMachine) {
  for (const Finding& finding : GpuFindings(GoodFacts()))
    EXPECT_EQ(finding.level, Level::kOk) << finding.check << finding.what;
  EXPECT_EQ(Of(GoodFacts(), "GPU 1").what,
            "NVIDIA H200, 140GiB, sm_90, GPU-1, PCI 0000:1B:00.0");
  EXPECT_EQ(Of(GoodFacts(), "NCCL").what, "2.29.2");
  EXPECT_EQ(Of(GoodFacts(), "driver").what, "for CUDA up to 13.1");
}

TEST(GpuTest, ACpuMachineHasOneLine) {
  GpuFacts facts;
  facts.driver.error = "cannot load libcuda.so.1";
  const std::vector<Finding> findings = GpuFindings(facts);
  ASSERT_EQ(findings.size(), 1);
  EXPECT_EQ(findings[0].level, Level::kOk);
  EXPECT_THAT(findings[0].what, HasSubstr("this build has none"));
}

TEST(GpuTest, ABuildWithoutCudaCannotServe) {
  GpuFacts facts = GoodFacts();
  facts.build.reset();
  ExpectFailure(facts, "CUDA", "this build has none");
  EXPECT_EQ(Of(facts, "NCCL").level, Level::kOk);
}

TEST(GpuTest, NoDriverOrAnOldOne) {
  GpuFacts facts = GoodFacts();
  facts.driver = {12080, ""};
  ExpectFailure(facts, "driver", "up to 12.8; this build wants 13.0");
  facts.driver = {0, "cannot load libcuda.so.1"};
  ExpectFailure(facts, "driver", "cannot load libcuda.so.1");
}

TEST(GpuTest, LibrariesThatAreMissingOldOrOfAnotherMajorVersion) {
  GpuFacts facts = GoodFacts();
  facts.nccl = LoadedLibrary{0, "cannot load libnccl.so.2"};
  ExpectFailure(facts, "NCCL", "none: cannot load libnccl.so.2");
  facts.nccl = LoadedLibrary{21805, ""};
  ExpectFailure(facts, "NCCL",
                "2.18.5; this build wants 2.19.3 or later, up to 2.x");
  facts.nccl = LoadedLibrary{21903, ""};
  EXPECT_EQ(Of(facts, "NCCL").level, Level::kOk);
  facts.cudnn = LoadedLibrary{100001, ""};
  ExpectWarning(facts, "cuDNN",
                "10.0.1; this build wants 9.6.0 or later, up to 9.x");
  facts.cublaslt = LoadedLibrary{140000, ""};
  ExpectFailure(facts, "cuBLASLt",
                "14.0.0; this build wants 12.0.0 or later, up to 13.x");
  facts.build.reset();
  EXPECT_EQ(Of(facts, "cuBLASLt").level, Level::kOk);
}

TEST(GpuTest, NoGpuOrOneThatIsTooOld) {
  GpuFacts facts = GoodFacts();
  facts.gpus[0].capability = 75;
  ExpectFailure(facts, "GPU 0", "sm_75");
  facts.gpus.clear();
  facts.gpus_error = "no CUDA-capable device is detected";
  ExpectFailure(facts, "GPUs", "no CUDA-capable device");
}

TEST(GpuTest, PeersThatDoNotReachEachOtherAreSlow) {
  GpuFacts facts = GoodFacts();
  facts.peer_pairs = 0;
  const Finding finding = Of(facts, "GPU peers");
  EXPECT_EQ(finding.level, Level::kWarning);
  EXPECT_THAT(finding.what, HasSubstr("0 of 1 pairs"));
}

TEST(GpuTest, ThisMachineCanBeAsked) {
  EXPECT_FALSE(GpuFindings(GatherGpuFacts(true)).empty());
}

}  // namespace
}  // namespace ringmaster::ctl
