#include "worker/nn/linear.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "common/sync/thread_pool.h"
#include "gtest/gtest.h"
#include "worker/nn/testing/allocation_counter.h"
#include "worker/nn/testing/operator_testing.h"
#include "worker/nn/testing/reference_ops.h"

namespace ringmaster {
namespace {

// The operands of one linear operator.
template <typename T>
struct Inputs {
  explicit Inputs(LinearShape shape)
      : x(Random<T>(shape.batch * shape.in, 1)),
        weight(Random<T>(shape.out * shape.in, 2)),
        bias(Random<T>(shape.out, 3)),
        dy(Random<T>(shape.batch * shape.out, 4)) {}

  std::vector<T> x;
  std::vector<T> weight;
  std::vector<T> bias;
  std::vector<T> dy;
};

template <typename T, typename Fast, typename Plain>
void ExpectSet(int64_t count, const char* what, Fast fast, Plain plain) {
  std::vector<T> got = Unwritten<T>(count);
  std::vector<T> want = got;
  fast(got.data());
  plain(want.data());
  ExpectClose(got, want, what);
}

// fast(write, output), which sets or adds.
template <typename T, typename Fast, typename Plain>
void ExpectSetAndAdded(int64_t count, const char* what, Fast fast,
                       Plain plain) {
  ASSERT_NO_FATAL_FAILURE(ExpectSet<T>(
      count, what, [&](T* output) { fast(Write::kSet, output); }, plain));
  std::vector<T> got = Random<T>(count, 5);
  std::vector<T> want(static_cast<size_t>(count));
  plain(want.data());
  for (size_t i = 0; i < want.size(); ++i) want[i] += got[i];
  fast(Write::kAdd, got.data());
  ExpectClose(got, want, what);
}

template <typename T>
void ExpectForwardMatches(const Compute& compute, LinearShape shape) {
  const Inputs<T> in(shape);
  const int64_t count = shape.batch * shape.out;
  for (const T* bias : {in.bias.data(), static_cast<const T*>(nullptr)}) {
    ASSERT_NO_FATAL_FAILURE(ExpectSet<T>(
        count, "y",
        [&](T* y) {
          LinearForward<T>(compute, shape, in.x.data(), in.weight.data(), bias,
                           y);
        },
        [&](T* y) {
          reference::LinearForward<T>(shape, in.x.data(), in.weight.data(),
                                      bias, y);
        }));
    // pre, then y.
    ASSERT_NO_FATAL_FAILURE(ExpectSet<T>(
        2 * count, "GELU",
        [&](T* both) {
          LinearGeluForward<T>(compute, shape, in.x.data(), in.weight.data(),
                               bias, both, both + count);
        },
        [&](T* both) {
          reference::LinearGeluForward<T>(shape, in.x.data(), in.weight.data(),
                                          bias, both, both + count);
        }));
  }
}

template <typename T>
void ExpectBackwardMatches(const Compute& compute, LinearShape shape) {
  const Inputs<T> in(shape);
  ASSERT_NO_FATAL_FAILURE(ExpectSet<T>(
      shape.batch * shape.in, "dx",
      [&](T* dx) {
        LinearBackwardInput<T>(compute, shape, in.dy.data(), in.weight.data(),
                               dx);
      },
      [&](T* dx) {
        reference::LinearBackwardInput<T>(shape, in.dy.data(), in.weight.data(),
                                          dx);
      }));
  ASSERT_NO_FATAL_FAILURE(ExpectSetAndAdded<T>(
      shape.out * shape.in, "dweight",
      [&](Write write, T* dweight) {
        LinearBackwardWeight<T>(compute, shape, write, in.dy.data(),
                                in.x.data(), dweight);
      },
      [&](T* dweight) {
        reference::LinearBackwardWeight<T>(shape, in.dy.data(), in.x.data(),
                                           dweight);
      }));
  ASSERT_NO_FATAL_FAILURE(ExpectSetAndAdded<T>(
      shape.out, "dbias",
      [&](Write write, T* dbias) {
        LinearBackwardBias<T>(compute, shape, write, in.dy.data(), dbias);
      },
      [&](T* dbias) {
        reference::LinearBackwardBias<T>(shape, in.dy.data(), dbias);
      }));
}

template <typename T>
class TypedLinearTest : public ::testing::Test {};
using ScalarTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(TypedLinearTest, ScalarTypes);

TYPED_TEST(TypedLinearTest, MatchesReferenceForAllShapesAndLayouts) {
  using T = TypeParam;
  ThreadPool pool(2);
  for (WeightLayout layout : {WeightLayout::kOutIn, WeightLayout::kInOut}) {
    for (int64_t batch : {0, 1, 2, 7, 33}) {
      for (int64_t in : {1, 5, 64}) {
        for (int64_t out : {1, 6, 65, 300}) {
          const LinearShape shape = {batch, in, out, layout};
          ASSERT_NO_FATAL_FAILURE(
              ExpectForwardMatches<T>({.pool = pool}, shape))
              << batch << " " << in << " " << out;
          ASSERT_NO_FATAL_FAILURE(
              ExpectBackwardMatches<T>({.pool = pool}, shape))
              << batch << " " << in << " " << out;
        }
      }
    }
  }
}

// Everything that the operators compute, one after the other.
std::vector<float> AllOutputs(const Compute& compute, LinearShape shape) {
  const Inputs<float> in(shape);
  const int64_t y_count = shape.batch * shape.out;
  const int64_t x_count = shape.batch * shape.in;
  const int64_t weight_count = shape.in * shape.out;
  std::vector<float> all(2 * y_count + x_count + weight_count + shape.out);
  float* at = all.data();
  LinearGeluForward<float>(compute, shape, in.x.data(), in.weight.data(),
                           in.bias.data(), at, at + y_count);
  at += 2 * y_count;
  LinearBackwardInput<float>(compute, shape, in.dy.data(), in.weight.data(),
                             at);
  at += x_count;
  LinearBackwardWeight<float>(compute, shape, Write::kAdd, in.dy.data(),
                              in.x.data(), at);
  at += weight_count;
  LinearBackwardBias<float>(compute, shape, Write::kAdd, in.dy.data(), at);
  return all;
}

TEST(LinearTest, GivesTheSameBitsForEveryPool) {
  const LinearShape shape = {37, 120, 600, WeightLayout::kInOut};
  for (Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
    std::vector<float> first;
    for (int threads : {1, 2, 3}) {
      ThreadPool pool(threads);
      const std::vector<float> all =
          AllOutputs({.pool = pool, .precision = precision}, shape);
      if (threads == 1) first = all;
      EXPECT_EQ(
          std::memcmp(first.data(), all.data(), all.size() * sizeof(float)), 0)
          << threads << " threads";
    }
  }
}

TEST(LinearTest, BFloat16IsCloseToFloatButNotTheSame) {
  const LinearShape shape = {5, 64, 48};
  ThreadPool pool(1);
  const std::vector<float> want = AllOutputs({.pool = pool}, shape);
  const std::vector<float> got =
      AllOutputs({.pool = pool, .precision = Precision::kBFloat16}, shape);
  EXPECT_NE(got, want);
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(got[i], want[i], 0.1) << "element " << i;
}

TEST(LinearTest, AllocatesNothingTheSecondTime) {
  const LinearShape shape = {37, 120, 600};
  const Inputs<float> in(shape);
  std::vector<float> pre(shape.batch * shape.out);
  std::vector<float> y(pre.size());
  ThreadPool pool(2);
  const auto forward = [&] {
    LinearGeluForward<float>({.pool = pool}, shape, in.x.data(),
                             in.weight.data(), in.bias.data(), pre.data(),
                             y.data());
  };
  forward();
  const int64_t before = AllocationCount();
  forward();
  EXPECT_EQ(AllocationCount(), before);
}

void ExpectFiniteDifferences(LinearShape shape) {
  ThreadPool pool(1);
  const Compute compute = {.pool = pool};
  const Inputs<double> in(shape);
  const auto loss = [&](const std::vector<double>& x,
                        const std::vector<double>& weight,
                        const std::vector<double>& bias) {
    std::vector<double> y(in.dy.size());
    LinearForward<double>(compute, shape, x.data(), weight.data(), bias.data(),
                          y.data());
    return Dot(y, in.dy);
  };
  std::vector<double> dx(in.x.size());
  std::vector<double> dweight(in.weight.size());
  std::vector<double> dbias(in.bias.size());
  LinearBackwardInput<double>(compute, shape, in.dy.data(), in.weight.data(),
                              dx.data());
  LinearBackwardWeight<double>(compute, shape, Write::kSet, in.dy.data(),
                               in.x.data(), dweight.data());
  LinearBackwardBias<double>(compute, shape, Write::kSet, in.dy.data(),
                             dbias.data());
  ExpectGradient(in.x, dx, [&](const std::vector<double>& point) {
    return loss(point, in.weight, in.bias);
  });
  ExpectGradient(in.weight, dweight, [&](const std::vector<double>& point) {
    return loss(in.x, point, in.bias);
  });
  ExpectGradient(in.bias, dbias, [&](const std::vector<double>& point) {
    return loss(in.x, in.weight, point);
  });
}

TEST(LinearTest, GradientsAreFiniteDifferences) {
  ExpectFiniteDifferences({3, 4, 5, WeightLayout::kOutIn});
  ExpectFiniteDifferences({3, 4, 5, WeightLayout::kInOut});
}

}  // namespace
}  // namespace ringmaster
