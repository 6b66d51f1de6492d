#include "worker/nn/cuda/rotary.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "worker/nn/cuda/testing/device_operands.h"
#include "worker/nn/rotary.h"
#include "worker/nn/testing/operator_testing.h"

namespace ringmaster::cuda {
namespace {

constexpr double kTheta = 10000;

template <typename T>
class RotaryTest : public DeviceTest {};
TYPED_TEST_SUITE(RotaryTest, ElementTypes);

TYPED_TEST(RotaryTest, MatchesTheCpu) {
  using T = TypeParam;
  for (const RotaryShape& shape :
       {RotaryShape{0, 5, 2, 1, 4}, RotaryShape{1, 1, 1, 1, 2},
        RotaryShape{2, 7, 4, 2, 6}, RotaryShape{3, 40, 6, 1, 64}}) {
    const int64_t rows = shape.samples * shape.window;
    const int64_t width = shape.heads * shape.head_dim;
    const int64_t kv_width = shape.kv_heads * shape.head_dim;
    const auto random = [](int64_t count, uint64_t key) {
      return RoundedTo<T>(Random<float>(count, key));
    };
    const std::vector<float> q = random(rows * width, 1);
    const std::vector<float> k = random(rows * kv_width, 2);
    const std::vector<float> v = random(rows * kv_width, 3);
    const std::vector<float> dqkv = random(3 * rows * width, 4);
    std::vector<float> want_table =
        Unwritten<float>(shape.window * shape.head_dim);
    std::vector<float> want_qkv = Unwritten<float>(3 * rows * width);
    std::vector<float> want_dq = Unwritten<float>(rows * width);
    std::vector<float> want_dk = Unwritten<float>(rows * kv_width);
    std::vector<float> want_dv = Unwritten<float>(rows * kv_width);
    ringmaster::RotaryTable<float>(OneThread(), shape.window, shape.head_dim,
                                   kTheta, want_table.data());
    ringmaster::RotaryForward<float>(OneThread(), shape, q.data(), k.data(),
                                     v.data(), want_table.data(),
                                     want_qkv.data());
    ringmaster::RotaryBackward<float>(OneThread(), shape, dqkv.data(),
                                      want_table.data(), want_dq.data(),
                                      want_dk.data(), want_dv.data());

    const auto device_q = DeviceArray<T>::Of(q);
    const auto device_k = DeviceArray<T>::Of(k);
    const auto device_v = DeviceArray<T>::Of(v);
    const auto device_dqkv = DeviceArray<T>::Of(dqkv);
    const DeviceArray<float> table(shape.window * shape.head_dim);
    const DeviceArray<T> qkv(3 * rows * width), dq(rows * width),
        dk(rows * kv_width), dv(rows * kv_width);
    RotaryTable(this->stream(), shape.window, shape.head_dim, kTheta,
                table.get());
    RotaryForward<T>(this->stream(), shape, device_q.get(), device_k.get(),
                     device_v.get(), table.get(), qkv.get());
    RotaryBackward<T>(this->stream(), shape, device_dqkv.get(), table.get(),
                      dq.get(), dk.get(), dv.get());
    ASSERT_TRUE(this->Finish());
    ExpectNear<float>(table.Read(), want_table, "table");
    ExpectNear<T>(qkv.Floats(), want_qkv, "qkv");
    ExpectNear<T>(dq.Floats(), want_dq, "dq");
    ExpectNear<T>(dk.Floats(), want_dk, "dk");
    ExpectNear<T>(dv.Floats(), want_dv, "dv");
  }
}

}  // namespace
}  // namespace ringmaster::cuda
