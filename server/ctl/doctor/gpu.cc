#include "server/ctl/doctor/gpu.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/machine/cuda_libraries.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {
namespace {

constexpr int kLeastCapability = 80;

// "13.0"
std::string CudaText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

// "2.28.9"
std::string ThreePartText(int version) {
  return absl::StrCat(version / 10000, ".", version % 10000 / 100, ".",
                      version % 100);
}

// A failure where GPUs are wanted, else a fact.
Finding Lacking(const GpuFacts& facts, std::string_view check, std::string what,
                std::string why, std::string remedy) {
  if (!facts.is_wanted) return Good(check, std::move(what));
  return Fail(check, std::move(what), std::move(why), std::move(remedy));
}

Finding BuildFinding(const GpuFacts& facts) {
  if (facts.build.has_value()) {
    return Good("CUDA", absl::StrCat("this build has CUDA ",
                                     CudaText(facts.build->runtime)));
  }
  return Lacking(facts, "CUDA",
                 "this build has none: its workers compute on the CPU",
                 "it cannot tell which versions of the libraries are right",
                 "give --device=cpu, or take a build made with --config=cuda");
}

Finding DriverFinding(const GpuFacts& facts) {
  if (facts.driver.version == 0) {
    return Lacking(facts, "driver", absl::StrCat("none: ", facts.driver.error),
                   "no program finds a GPU without one",
                   "install NVIDIA's driver; in a container, start it with "
                   "--gpus=all or under the NVIDIA runtime");
  }
  const std::string what =
      absl::StrCat("for CUDA up to ", CudaText(facts.driver.version));
  if (facts.build.has_value() &&
      facts.driver.version / 1000 < facts.build->runtime / 1000) {
    return Lacking(facts, "driver",
                   absl::StrCat(what, "; this build wants ",
                                CudaText(facts.build->runtime)),
                   "it refuses to run this build's kernels",
                   "install a newer driver");
  }
  return Good("driver", what);
}

// The versions of a library that can be used: from `oldest` to the major
// version that this build was made with (`built`; 0: it has no CUDA).
struct Wanted {
  int oldest = 0;
  int built = 0;

  [[nodiscard]] bool Has(int version) const {
    return version >= oldest &&
           (built == 0 || version / 10000 <= built / 10000);
  }
  [[nodiscard]] std::string Text() const {
    return absl::StrCat(
        ThreePartText(oldest), " or later",
        built == 0 ? "" : absl::StrCat(", up to ", built / 10000, ".x"));
  }
};

Finding LibraryFinding(const GpuFacts& facts, std::string_view name,
                       const LoadedLibrary& library, const Wanted& wanted) {
  const std::string package =
      absl::StrCat("install ", std::string(name), " ", wanted.Text(),
                   ", or set LD_LIBRARY_PATH to where it is");
  if (library.version == 0) {
    return Lacking(facts, name, absl::StrCat("none: ", library.error),
                   "workers on GPUs load it when they start", package);
  }
  const std::string what = ThreePartText(library.version);
  if (wanted.Has(library.version)) return Good(name, what);
  return Lacking(
      facts, name, absl::StrCat(what, "; this build wants ", wanted.Text()),
      "functions that workers call are missing or have changed", package);
}

// cuDNN, which workers can do without.
Finding CudnnFinding(const GpuFacts& facts, const LoadedLibrary& library,
                     const Wanted& wanted) {
  Finding finding = LibraryFinding(facts, "cuDNN", library, wanted);
  if (finding.level != Level::kFailure) return finding;
  return Warn(finding.check, std::move(finding.what),
              "workers compute attention and convolutions with kernels of "
              "their own, and refuse --attention=cudnn and "
              "--convolution=cudnn",
              std::move(finding.remedy));
}

Finding GpuFinding(const GpuFacts& facts, size_t ordinal) {
  const Gpu& gpu = facts.gpus[ordinal];
  const std::string check = absl::StrCat("GPU ", ordinal);
  const std::string what =
      absl::StrCat(gpu.name.empty() ? "of an unknown name" : gpu.name, ", ",
                   FormatBytes(gpu.memory_bytes), ", sm_", gpu.capability, ", ",
                   gpu.uuid, ", PCI ", gpu.bus);
  if (gpu.capability >= kLeastCapability) return Good(check, what);
  return Lacking(
      facts, check, what,
      absl::StrCat("kernels are built for sm_", kLeastCapability, " and later"),
      "hide it with CUDA_VISIBLE_DEVICES, and use a GPU since "
      "Ampere");
}

Finding PeersFinding(const GpuFacts& facts) {
  const int count = static_cast<int>(facts.gpus.size());
  const int pairs = count * (count - 1) / 2;
  const std::string what = absl::StrCat(facts.peer_pairs, " of ", pairs,
                                        " pairs reach each other's memory");
  if (facts.peer_pairs == pairs || !facts.is_wanted)
    return Good("GPU peers", what);
  return Warn("GPU peers", what,
              "the others exchange gradients through the host's memory",
              "look at `nvidia-smi topo -m`; in a virtual machine, ask for "
              "GPUs of one switch, and for IOMMU and ACS to let them");
}

}  // namespace

std::vector<Finding> GpuFindings(const GpuFacts& facts) {
  std::vector<Finding> findings = {BuildFinding(facts)};
  const bool has_driver = facts.driver.version != 0;
  // A machine for CPUs has nothing more to tell.
  if (!facts.is_wanted && !facts.build.has_value() && !has_driver)
    return findings;
  findings.push_back(DriverFinding(facts));
  const CudaVersions built = facts.build.value_or(CudaVersions{});
  if (facts.nccl.has_value()) {
    findings.push_back(
        LibraryFinding(facts, "NCCL", *facts.nccl, {kOldestNccl, built.nccl}));
  }
  if (facts.cudnn.has_value()) {
    findings.push_back(
        CudnnFinding(facts, *facts.cudnn, {kOldestCudnn, built.cudnn}));
  }
  if (facts.cublaslt.has_value()) {
    findings.push_back(LibraryFinding(facts, "cuBLASLt", *facts.cublaslt,
                                      {kOldestCublasLt, built.cublaslt}));
  }
  if (!has_driver) return findings;
  if (facts.gpus.empty()) {
    findings.push_back(Lacking(
        facts, "GPUs",
        facts.gpus_error.empty() ? "none"
                                 : absl::StrCat("none: ", facts.gpus_error),
        "a worker with --device=cuda cannot start",
        "look at `nvidia-smi` and CUDA_VISIBLE_DEVICES; in a container, give "
        "it GPUs"));
  }
  for (size_t ordinal = 0; ordinal < facts.gpus.size(); ++ordinal)
    findings.push_back(GpuFinding(facts, ordinal));
  if (facts.gpus.size() > 1) findings.push_back(PeersFinding(facts));
  return findings;
}

}  // namespace ringmaster::ctl
