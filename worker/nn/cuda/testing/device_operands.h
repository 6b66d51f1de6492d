// Helpers for tests of operators on GPUs: operands in device memory, outputs
// that begin unwritten, and comparisons with a tolerance by element type.
//
// Thread-safety: thread-compatible.
// Example:
//   template <typename T>
//   class ScaleTest : public DeviceTest {};
//   TYPED_TEST_SUITE(ScaleTest, ElementTypes);
//   TYPED_TEST(ScaleTest, MatchesReference) {
//     const std::vector<float> x = RoundedTo<TypeParam>(Random<float>(9, 1));
//     const auto device_x = DeviceArray<TypeParam>::Of(x);
//     const DeviceArray<TypeParam> y(9);
//     Scale<TypeParam>(this->stream(), 9, device_x.get(), y.get());
//     ASSERT_TRUE(this->Finish());
//     ExpectNear<TypeParam>(y.Floats(), want, "y");
//   }
#ifndef RINGMASTER_WORKER_NN_CUDA_TESTING_DEVICE_OPERANDS_H_
#define RINGMASTER_WORKER_NN_CUDA_TESTING_DEVICE_OPERANDS_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "common/plan/counter_random.h"
#include "gtest/gtest.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/nn/compute.h"
#include "worker/nn/cuda/device_dropout.h"
#include "worker/nn/cuda/element.h"
#include "worker/nn/testing/operator_testing.h"

namespace ringmaster::cuda {

// The types that an operator's activations may have.
using ElementTypes = ::testing::Types<float, __nv_bfloat16, __half>;

// The largest relative error, in the Euclidean norm, of an output that is
// rounded to T once, from sums in float: half a unit in the last place and some
// more.
template <typename T>
constexpr double kTolerance = 2e-6;
template <>
inline constexpr double kTolerance<__nv_bfloat16> = 4e-3;
template <>
inline constexpr double kTolerance<__half> = 5e-4;

// `values` as T holds them, so that the reference in float has the same inputs.
template <typename T>
std::vector<float> RoundedTo(std::vector<float> values) {
  for (float& value : values) value = ToFloat(RoundTo<T>(value));
  return values;
}

template <typename T>
void ExpectNear(const std::vector<float>& got, const std::vector<float>& want,
                const char* what) {
  EXPECT_LE(RelativeError(got, want), kTolerance<T>) << what;
}

// `count` elements of device memory, between two guards: Read finds a write
// outside. Errors of CUDA are failures of the test.
// Ownership: frees the memory, for which it waits until the device is idle.
template <typename T>
class DeviceArray {
 public:
  // Unwritten: all bits are 1, which is NaN, -1 or 255. get() lies `offset`
  // elements behind an address that 256 divides.
  explicit DeviceArray(int64_t count, int64_t offset = 0)
      : count_(static_cast<size_t>(count)),
        before_((kGuardBytes / sizeof(T)) + static_cast<size_t>(offset)) {
    EXPECT_EQ(cudaMalloc(&memory_, AllElems() * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemset(memory_, 0xff, AllElems() * sizeof(T)), cudaSuccess);
    // Streams beside the null stream do not wait for its end, nor does a copy
    // of memory that is not pinned.
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  explicit DeviceArray(const std::vector<T>& values, int64_t offset = 0)
      : DeviceArray(static_cast<int64_t>(values.size()), offset) {
    EXPECT_EQ(cudaMemcpy(get(), values.data(), count_ * sizeof(T),
                         cudaMemcpyHostToDevice),
              cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  // An array of `values` rounded to T.
  static DeviceArray Of(const std::vector<float>& values, int64_t offset = 0) {
    std::vector<T> rounded(values.size());
    for (size_t i = 0; i < values.size(); ++i)
      rounded[i] = RoundTo<T>(values[i]);
    return DeviceArray(rounded, offset);
  }
  DeviceArray(DeviceArray&& other) noexcept
      : count_(other.count_),
        before_(other.before_),
        memory_(std::exchange(other.memory_, nullptr)) {}
  ~DeviceArray() { cudaFree(memory_); }

  [[nodiscard]] T* get() const { return static_cast<T*>(memory_) + before_; }

  // Waits for the device. A write outside the array is a failure of the test.
  [[nodiscard]] std::vector<T> Read() const {
    std::vector<T> all(AllElems());
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(all.data(), memory_, all.size() * sizeof(T),
                         cudaMemcpyDeviceToHost),
              cudaSuccess);
    EXPECT_TRUE(AreUnwritten(all, 0, before_)) << "written before the array";
    EXPECT_TRUE(AreUnwritten(all, before_ + count_, all.size()))
        << "written beyond the array";
    return {all.begin() + static_cast<ptrdiff_t>(before_),
            all.begin() + static_cast<ptrdiff_t>(before_ + count_)};
  }
  [[nodiscard]] std::vector<float> Floats() const {
    std::vector<float> floats;
    for (const T& value : Read()) floats.push_back(ToFloat(value));
    return floats;
  }

 private:
  static constexpr size_t kGuardBytes = 256;

  [[nodiscard]] size_t AllElems() const {
    return before_ + count_ + kGuardBytes / sizeof(T);
  }
  static bool AreUnwritten(const std::vector<T>& all, size_t begin,
                           size_t end) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(all.data());
    for (size_t i = begin * sizeof(T); i < end * sizeof(T); ++i)
      if (bytes[i] != 0xff) return false;
    return true;
  }

  const size_t count_;
  const size_t before_;  // elements of the guard, and the offset
  void* memory_ = nullptr;
};

// One dropout, as operators on the device and as those on the host are given
// it.
class DropoutOperands {
 public:
  DropoutOperands(double rate, uint64_t pass_key,
                  const std::vector<int64_t>& sample_ids,
                  int64_t elems_per_sample)
      : ids_(sample_ids),
        device_ids_(sample_ids),
        device_key_(std::vector<uint64_t>{pass_key}),
        on_device_{rate, device_key_.get(), kSite, device_ids_.get(),
                   elems_per_sample},
        on_host_{rate, CounterRandom(pass_key, kSite), ids_.data(),
                 elems_per_sample} {}

  [[nodiscard]] const DeviceDropout& on_device() const { return on_device_; }
  [[nodiscard]] const Dropout& on_host() const { return on_host_; }

 private:
  static constexpr uint64_t kSite = 12;

  const std::vector<int64_t> ids_;
  const DeviceArray<int64_t> device_ids_;
  const DeviceArray<uint64_t> device_key_;
  const DeviceDropout on_device_;
  const Dropout on_host_;
};

// A test with a GPU and a stream on it; skipped, with the reason, where there
// is none.
class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = CudaDevice::Open(0);
    if (absl::IsFailedPrecondition(device.status()))
      GTEST_SKIP() << device.status();
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    auto stream = CudaStream::Create("test");
    ASSERT_TRUE(stream.ok()) << stream.status();
    stream_ = *std::move(stream);
  }

  CudaDevice& device() { return *device_; }
  CudaStream& stream() { return *stream_; }
  // Waits for what was queued; false, and the reason, if it failed.
  ::testing::AssertionResult Finish() {
    const absl::Status status = stream_->Synchronize();
    if (status.ok()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << status;
  }

 private:
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<CudaStream> stream_;
};

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_TESTING_DEVICE_OPERANDS_H_
