// The emulated libraries are linked into the program.
#include "worker/device/cuda/cuda_libraries.h"

namespace ringmaster {

std::vector<std::string> CublasLtNames() { return {""}; }

std::vector<std::string> CudnnNames() {
  return {"libcudnn.so.9, which the CUDA emulator has not"};
}

std::vector<std::string> CuptiNames() { return {""}; }

std::vector<std::string> NcclNames() { return {""}; }

}  // namespace ringmaster
