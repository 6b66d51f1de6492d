// The properties of an H200 as cuDNN knows them, so that plans for one can be
// made where there is no GPU at all.
#ifndef RINGMASTER_WORKER_NN_CUDA_TESTING_HOPPER_H_
#define RINGMASTER_WORKER_NN_CUDA_TESTING_HOPPER_H_

#include <string_view>

namespace ringmaster::cuda {

// As CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION has it since cuDNN 9.8.
inline constexpr std::string_view kHopperProperties = R"({
  "cudaDeviceId": 0, "deviceName": "NVIDIA H200", "deviceVer": 900,
  "driverVer": 13000, "totalGlobalMem": 150000000000,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
  "regsPerBlock": 65536, "multiProcessorCount": 132, "warpSize": 32,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
  "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
  "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
  "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1,
  "smClockRateKHz": 1980000, "memClockRateKHz": 3201000,
  "l2CacheSize": 62914560
})";

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_TESTING_HOPPER_H_
