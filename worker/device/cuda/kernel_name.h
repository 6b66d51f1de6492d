// KernelName turns the name of a kernel's symbol into a name for people.
//
// Thread-safety: thread-safe.
#ifndef RINGMASTER_WORKER_DEVICE_CUDA_KERNEL_NAME_H_
#define RINGMASTER_WORKER_DEVICE_CUDA_KERNEL_NAME_H_

#include <string>

namespace ringmaster {

// Returns the name as C++ writes it. If a part of it is in an unnamed
// namespace, the file of that comes first, which nvcc keeps in the symbol:
// "layer_norm: void (anonymous namespace)::ForwardKernel<float>(...)". A name
// that is not mangled comes back as it is.
[[nodiscard]] std::string KernelName(const std::string& symbol);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DEVICE_CUDA_KERNEL_NAME_H_
