// Gathers the facts of nccl.h.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/machine/cuda_libraries.h"
#include "common/machine/shared_library.h"
#include "common/transport/unique_fd.h"
#include "server/ctl/doctor/gpu.h"
#include "server/ctl/doctor/nccl.h"

namespace ringmaster::ctl {
namespace {

// NCCL's interface (nccl.h), of which a build without the toolkit has no
// header; it is stable within 2.x.
using Result = int;
using Communicator = void*;

// From its begin.
std::string ReadAll(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  ssize_t count = 0;
  while ((count = ::pread(fd, buffer.data(), buffer.size(),
                          static_cast<off_t>(text.size()))) > 0)
    text.append(buffer.data(), static_cast<size_t>(count));
  return text;
}

void SetLogging(const std::string& path) {
  ::setenv("NCCL_DEBUG", "INFO", 1);
  ::setenv("NCCL_DEBUG_SUBSYS", "INIT,BOOTSTRAP,NET,GRAPH,P2P,SHM,NVLS", 1);
  ::setenv("NCCL_DEBUG_FILE", path.c_str(), 1);
  // Connections are made, and logged, at once, not at the first collective.
  ::setenv("NCCL_RUNTIME_CONNECT", "0", 1);
}

NcclFacts MakeCommunicators(const SharedLibrary& library, int gpus) {
  NcclFacts facts{.gpus = gpus, .error = {}, .log = {}};
  Result (*init_all)(Communicator*, int, const int*) = nullptr;
  const char* (*error_text)(Result) = nullptr;
  for (const absl::Status& found :
       {library.Find("ncclCommInitAll", &init_all),
        library.Find("ncclGetErrorString", &error_text)}) {
    if (!found.ok()) {
      facts.error = std::string(found.message());
      return facts;
    }
  }
  const UniqueFd log(::memfd_create("nccl-log", MFD_CLOEXEC));
  if (!log.is_open()) {
    facts.error = absl::StrCat("no file for its log: ", std::strerror(errno));
    return facts;
  }
  SetLogging(absl::StrCat("/proc/self/fd/", log.get()));
  std::vector<Communicator> communicators(static_cast<size_t>(gpus));
  const Result result = init_all(communicators.data(), gpus, nullptr);
  if (result != 0)
    facts.error = absl::StrCat("ncclCommInitAll: ", error_text(result));
  (void)std::fflush(nullptr);  // of NCCL's file
  facts.log = ReadAll(log.get());
  return facts;
}

}  // namespace

std::optional<NcclFacts> GatherNcclFacts() {
  const GpuFacts gpus = GatherGpuFacts(true);
  const absl::StatusOr<SharedLibrary> library =
      SharedLibrary::Load(CudaLibraryPlaces({"libnccl.so.2"}));
  if (gpus.gpus.empty() || !library.ok()) return std::nullopt;
  return MakeCommunicators(*library, static_cast<int>(gpus.gpus.size()));
}

}  // namespace ringmaster::ctl
