// A libcuda.so.1 with two GPUs, for machines without one: what gpu_facts.cc
// calls, as in cuda.h, and answers that are easy to recognise.
#include <cstddef>
#include <cstdio>
#include <cstring>

extern "C" {

int cuInit(unsigned flags) { return flags == 0 ? 0 : 1; }
int cuDriverGetVersion(int* version) {
  *version = 13010;
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = 2;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = 70 + ordinal;  // a handle is no ordinal
  return 0;
}
int cuDeviceGetName(char* name, int bytes, int device) {
  std::snprintf(name, static_cast<size_t>(bytes), "Stub %d", device);
  return 0;
}
int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  std::memset(uuid, device, 16);
  return 0;
}
int cuDeviceGetPCIBusId(char* name, int bytes, int device) {
  std::snprintf(name, static_cast<size_t>(bytes), "0000:%d:00.0", device);
  return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  *bytes = static_cast<size_t>(device) << 30;
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int /*device*/) {
  *value = attribute == 75 ? 9 : 0;  // compute capability 9.0
  return 0;
}
int cuDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer;
  return 0;
}
int cuGetErrorString(int /*result*/, const char** text) {
  *text = "stub";
  return 0;
}

}  // extern "C"
