#include "server/ctl/doctor/cuda_build.h"

namespace ringmaster::ctl {

std::optional<CudaVersions> BuiltCuda() { return std::nullopt; }

}  // namespace ringmaster::ctl
