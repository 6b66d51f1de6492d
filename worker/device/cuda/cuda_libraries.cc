#include "worker/device/cuda/cuda_libraries.h"

#include "common/machine/cuda_libraries.h"

namespace ringmaster {

std::vector<std::string> CublasLtNames() {
  return CudaLibraryPlaces({"libcublasLt.so.13", "libcublasLt.so.12"});
}

std::vector<std::string> CudnnNames() {
  return CudaLibraryPlaces({"libcudnn.so.9"});
}

std::vector<std::string> CuptiNames() {
  return CudaLibraryPlaces({"libcupti.so.13"});
}

std::vector<std::string> NcclNames() {
  return CudaLibraryPlaces({"libnccl.so.2"});
}

}  // namespace ringmaster
