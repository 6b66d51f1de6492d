// The operators of a Llama against their formulas, pools of several sizes against
// each other, and gradients against finite differences in double.
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/sync/thread_pool.h"
#include "common/tensor/cpu_dispatch.h"
#include "gtest/gtest.h"
#include "worker/nn/compute.h"
#include "worker/nn/layer_norm.h"
#include "worker/nn/rotary.h"
#include "worker/nn/swiglu.h"
#include "worker/nn/testing/operator_testing.h"

namespace ringmaster {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr double kTheta = 100;

// ---- RMSNorm: a layer norm without centring.

template <typename T>
struct RmsNormCase {
  explicit RmsNormCase(RowShape s)
      : shape(s),
        x(Random<T>(s.rows * s.dim, 1, 2)),
        delta(Random<T>(s.rows * s.dim, 2)),
        gamma(Random<T>(s.dim, 3)),
        dy(Random<T>(s.rows * s.dim, 5)),
        sum(Unwritten<T>(s.rows * s.dim)),
        y(sum),
        rstd(Unwritten<T>(s.rows)),
        dsum(Random<T>(s.rows * s.dim, 6)) {}

  void Run(const Compute& compute, Write write) {
    ResidualLayerNormForward<T>(compute, shape, x.data(), delta.data(), {},
                                sum.data(), gamma.data(), nullptr, kEpsilon,
                                y.data(), nullptr, rstd.data());
    dgamma = Before<T>(write, shape.dim);
    std::vector<T> scratch =
        Unwritten<T>(LayerNormScratchElems(compute, shape));
    LayerNormBackward<T>(compute, shape, write, dy.data(), sum.data(),
                         gamma.data(), nullptr, rstd.data(), scratch.data(),
                         dsum.data(), dgamma.data(), nullptr);
  }

  RowShape shape;
  std::vector<T> x, delta, gamma, dy;
  std::vector<T> sum, y, rstd, dsum, dgamma;
};

template <typename T>
class LlamaOperatorTest : public ::testing::Test {};
using ScalarTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LlamaOperatorTest, ScalarTypes);

TYPED_TEST(LlamaOperatorTest, RmsNormIsTheFormula) {
  using T = TypeParam;
  for (int64_t rows : {0, 1, 9, 300}) {
    for (int64_t dim : {1, 3, 64, 130}) {
      RmsNormCase<T> run({rows, dim});
      run.Run(OneThread(), Write::kSet);
      std::vector<T> want = run.y;
      for (int64_t row = 0; row < rows; ++row) {
        double squares = 0;
        for (int64_t i = row * dim; i < (row + 1) * dim; ++i) {
          const double sum = static_cast<double>(run.x[i]) + run.delta[i];
          squares += sum * sum;
        }
        const double rstd =
            1 / std::sqrt(squares / static_cast<double>(dim) + kEpsilon);
        for (int64_t i = 0; i < dim; ++i) {
          const double sum = static_cast<double>(run.x[row * dim + i]) +
                             run.delta[row * dim + i];
          want[row * dim + i] = static_cast<T>(sum * rstd * run.gamma[i]);
        }
      }
      ExpectClose(run.y, want, "y");
    }
  }
}

TEST(LlamaFiniteDifferenceTest, RmsNorm) {
  const RowShape shape = {5, 7};
  RmsNormCase<double> run(shape);
  std::fill(run.dsum.begin(), run.dsum.end(), 0);
  run.Run(OneThread(), Write::kSet);
  const auto loss = [&](const std::vector<double>& x,
                        const std::vector<double>& gamma) {
    std::vector<double> sum(35), y(35), rstd(5);
    ResidualLayerNormForward<double>(OneThread(), shape, x.data(), nullptr, {},
                                     sum.data(), gamma.data(), nullptr,
                                     kEpsilon, y.data(), nullptr, rstd.data());
    return Dot(y, run.dy);
  };
  ExpectGradient(run.sum, run.dsum, [&](const std::vector<double>& point) {
    return loss(point, run.gamma);
  });
  ExpectGradient(run.gamma, run.dgamma, [&](const std::vector<double>& point) {
    return loss(run.sum, point);
  });
}

// ---- Rotary positions.

template <typename T>
struct RotaryCase {
  explicit RotaryCase(RotaryShape s)
      : shape(s),
        q(Random<T>(rows() * s.heads * s.head_dim, 1)),
        k(Random<T>(rows() * s.kv_heads * s.head_dim, 2)),
        v(Random<T>(rows() * s.kv_heads * s.head_dim, 3)),
        dqkv(Random<T>(3 * rows() * s.heads * s.head_dim, 4)),
        table(Unwritten<T>(s.window * s.head_dim)),
        qkv(Unwritten<T>(dqkv.size())),
        dq(Unwritten<T>(q.size())),
        dk(Unwritten<T>(k.size())),
        dv(Unwritten<T>(v.size())) {}

  int64_t rows() const { return shape.samples * shape.window; }
  void Run(const Compute& compute) {
    RotaryTable<T>(compute, shape.window, shape.head_dim, kTheta, table.data());
    RotaryForward<T>(compute, shape, q.data(), k.data(), v.data(), table.data(),
                     qkv.data());
    RotaryBackward<T>(compute, shape, dqkv.data(), table.data(), dq.data(),
                      dk.data(), dv.data());
  }

  RotaryShape shape;
  std::vector<T> q, k, v, dqkv;
  std::vector<T> table, qkv, dq, dk, dv;
};

std::vector<RotaryShape> RotaryShapes() {
  return {{0, 5, 2, 1, 4}, {1, 1, 1, 1, 2}, {2, 7, 4, 2, 6}, {3, 40, 6, 1, 64}};
}

TYPED_TEST(LlamaOperatorTest, RotaryTurnsEachPointByItsAngle) {
  using T = TypeParam;
  for (const RotaryShape& shape : RotaryShapes()) {
    RotaryCase<T> run(shape);
    run.Run(OneThread());
    std::vector<T> want = Unwritten<T>(run.qkv.size());
    const int64_t dim = shape.head_dim;
    const int64_t group = shape.heads / shape.kv_heads;
    for (int64_t row = 0; row < run.rows(); ++row) {
      for (int64_t head = 0; head < shape.heads; ++head) {
        for (int64_t i = 0; i < dim; ++i) {
          const double angle =
              static_cast<double>(row % shape.window) *
              std::pow(kTheta, -2.0 * static_cast<double>(i % (dim / 2)) /
                                   static_cast<double>(dim));
          // The other coordinate of the point, and its sign in the sum.
          const int64_t other = i < dim / 2 ? i + dim / 2 : i - dim / 2;
          const double sign = i < dim / 2 ? -1 : 1;
          const auto turned = [&](const std::vector<T>& x, int64_t begin) {
            return static_cast<T>(x[begin + i] * std::cos(angle) +
                                  sign * x[begin + other] * std::sin(angle));
          };
          const int64_t to = (3 * row * shape.heads + head) * dim + i;
          const int64_t kv = (row * shape.kv_heads + head / group) * dim;
          want[to] = turned(run.q, (row * shape.heads + head) * dim);
          want[to + shape.heads * dim] = turned(run.k, kv);
          want[to + 2 * shape.heads * dim] = run.v[kv + i];
        }
      }
    }
    ExpectClose(run.qkv, want, "qkv");
  }
}

// The operator is linear, so its gradient is its transpose: <f(x), y> = <x,
// f'(y)> for all x and y.
TYPED_TEST(LlamaOperatorTest, RotaryGoesBackByItsTranspose) {
  using T = TypeParam;
  for (const RotaryShape& shape : RotaryShapes()) {
    RotaryCase<T> run(shape);
    run.Run(OneThread());
    const auto dot = [](const std::vector<T>& a, const std::vector<T>& b) {
      return Dot({a.begin(), a.end()}, {b.begin(), b.end()});
    };
    const double forward = dot(run.qkv, run.dqkv);
    const double backward =
        dot(run.q, run.dq) + dot(run.k, run.dk) + dot(run.v, run.dv);
    EXPECT_NEAR(forward, backward,
                kElementTolerance<T> * (1 + std::abs(forward)) *
                    std::sqrt(1.0 + static_cast<double>(run.qkv.size())));
  }
}

TEST(LlamaFiniteDifferenceTest, RotaryOfSharedKeys) {
  RotaryCase<double> run({1, 3, 4, 2, 4});
  run.Run(OneThread());
  const auto loss = [&](const std::vector<double>& k,
                        const std::vector<double>& v) {
    std::vector<double> qkv(run.qkv.size());
    RotaryForward<double>(OneThread(), run.shape, run.q.data(), k.data(),
                          v.data(), run.table.data(), qkv.data());
    return Dot(qkv, run.dqkv);
  };
  ExpectGradient(run.k, run.dk, [&](const std::vector<double>& point) {
    return loss(point, run.v);
  });
  ExpectGradient(run.v, run.dv, [&](const std::vector<double>& point) {
    return loss(run.k, point);
  });
}

// ---- SwiGLU.

TYPED_TEST(LlamaOperatorTest, SwiGluIsTheFormulaAlsoFarOut) {
  using T = TypeParam;
  const std::vector<T> gate = {0, 1, -1, 5, -5, 80, -80, 1000, -1000};
  const std::vector<T> up = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<T> y = Unwritten<T>(9);
  SwiGluForward<T>(OneThread(), 9, gate.data(), up.data(), y.data());
  for (size_t i = 0; i < gate.size(); ++i) {
    const double x = gate[i];
    EXPECT_NEAR(y[i], x / (1 + std::exp(-x)) * up[i],
                1e-6 * (1 + std::abs(x * up[i])))
        << x;
  }
}

TEST(LlamaFiniteDifferenceTest, SwiGlu) {
  const std::vector<double> gate = Random<double>(40, 1, 4);
  const std::vector<double> up = Random<double>(40, 2);
  const std::vector<double> dy = Random<double>(40, 3);
  std::vector<double> dgate = dy;  // in its place
  std::vector<double> dup = Unwritten<double>(40);
  SwiGluBackward<double>(OneThread(), 40, gate.data(), up.data(), dgate.data(),
                         dgate.data(), dup.data());
  const auto loss = [&](const std::vector<double>& gate,
                        const std::vector<double>& up) {
    std::vector<double> y(40);
    SwiGluForward<double>(OneThread(), 40, gate.data(), up.data(), y.data());
    return Dot(y, dy);
  };
  ExpectGradient(gate, dgate, [&](const std::vector<double>& point) {
    return loss(point, up);
  });
  ExpectGradient(up, dup, [&](const std::vector<double>& point) {
    return loss(gate, point);
  });
}

TYPED_TEST(LlamaOperatorTest, EveryPoolGivesTheSameBits) {
  using T = TypeParam;
  std::vector<std::vector<std::vector<T>>> runs;
  for (int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    const Compute compute = {.pool = pool};
    RmsNormCase<T> norm({300, 200});
    norm.Run(compute, Write::kAdd);
    RotaryCase<T> rotary({3, 40, 6, 2, 64});
    rotary.Run(compute);
    std::vector<T> dup = Unwritten<T>(60000);
    std::vector<T> dgate = dup;
    SwiGluBackward<T>(compute, 60000, norm.x.data(), norm.delta.data(),
                      norm.dy.data(), dgate.data(), dup.data());
    runs.push_back({norm.y, norm.dsum, norm.dgamma, rotary.qkv, rotary.dq,
                    rotary.dk, rotary.dv, dgate, dup});
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_EQ(runs[0], runs[2]);
}

TYPED_TEST(LlamaOperatorTest, EveryIsaAgrees) {
  using T = TypeParam;
  RotaryCase<T> widest({2, 7, 4, 2, 6});
  widest.Run(OneThread());
  const ScopedIsaCap cap(CpuIsa::kBaseline);
  RotaryCase<T> baseline({2, 7, 4, 2, 6});
  baseline.Run(OneThread());
  ExpectClose(widest.qkv, baseline.qkv, "qkv");
  ExpectClose(widest.dk, baseline.dk, "dk");
}

}  // namespace
}  // namespace ringmaster
