#include "worker/nn/gemm_packed.h"

#if defined(__x86_64__)

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "common/tensor/cpu_dispatch.h"
#include "worker/nn/gemm_panels.h"
#include "worker/nn/gemm_panels_avx2.h"
#include "worker/nn/gemm_panels_avx512.h"
#include "worker/nn/gemm_scratch.h"

namespace ringmaster {
namespace {

using gemm_internal::Avx2Panels;
using gemm_internal::Avx512Panels;
using gemm_internal::kDepthPerWord;

// Words of depth multiplied at once: a right panel of them (72 KiB with AVX-512)
// comes from the second-level cache at a fraction of what that delivers, or
// stays in the first (24 KiB with AVX2), and every tile of c is read and written
// once for each.
constexpr int64_t kSliceWords = 384;
// Left lanes multiplied at once, at most, so that their panels (384 KiB) stay in
// the second-level cache.
constexpr int64_t kLeftBlock = 256;
// Lanes that a thread packs for itself at once.
constexpr int64_t kMaxLeftLanes = 96;
constexpr int64_t kMaxRightLanes = 192;
// Words of the operand that is packed for all threads, at once: 4 MiB. More if
// the operand is wider than kSharedWords / kMinSharedSlices slices.
constexpr int64_t kSharedWords = 1 << 20;
constexpr int64_t kMinSharedSlices = 2;
// Rows of memory that all panels read before any reads more.
constexpr int64_t kRowsAtOnce = 32;
// Blocks to aim at, for threads to share.
constexpr int64_t kBlocks = 8;

constexpr int64_t kWordBytes = sizeof(uint32_t);

alignas(64) constexpr float kZeros[48] = {};  // enough for a panel

constexpr int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Some lanes of an operand, packed: panel after panel.
struct Panels {
  const uint32_t* words;
  int64_t panel_words;  // from one panel to the next
};

// The values that sums begin with: c itself, or one row for all.
struct Start {
  const float* data;
  int64_t row_stride;
  int64_t column_stride;  // 0: zeros, at every column
};

// A part of the product: c [rows, columns].
struct Part {
  int64_t rows;
  int64_t columns;
  int64_t words;  // of depth
  Start start;
  float* c;
  int64_t c_stride;
};

template <typename Kind>
void MultiplyTile(const Part& part, int64_t row, int64_t column,
                  const uint32_t* left, const uint32_t* right) {
  constexpr int64_t kLeftLanes = Kind::kLeftLanes;
  constexpr int64_t kRightLanes = Kind::kRightLanes;
  static_assert(kRightLanes <= std::size(kZeros));
  const Start& from = part.start;
  const float* const start =
      from.data + row * from.row_stride + column * from.column_stride;
  float* const c = part.c + row * part.c_stride + column;
  const int64_t rows = std::min(part.rows - row, kLeftLanes);
  const int64_t columns = std::min(part.columns - column, kRightLanes);
  if (rows == kLeftLanes && columns == kRightLanes) {
    Kind::Multiply(part.words, left, right, start, from.row_stride, c,
                   part.c_stride);
    return;
  }
  // At the edges the tile is larger than what is left of c.
  alignas(64) float tile[kLeftLanes * kRightLanes];
  Kind::Multiply(part.words, left, right, kZeros, 0, tile, kRightLanes);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      c[i * part.c_stride + j] =
          tile[i * kRightLanes + j] + start[i * from.row_stride + j];
    }
  }
}

template <typename Kind>
void Multiply(const Part& part, Panels left, Panels right) {
  constexpr int64_t kLanes = Kind::kLeftLanes;
  constexpr int64_t kBlock = kLeftBlock / kLanes * kLanes;
  for (int64_t block = 0; block < part.rows; block += kBlock) {
    const int64_t end = std::min(part.rows, block + kBlock);
    for (int64_t column = 0; column < part.columns;
         column += Kind::kRightLanes) {
      for (int64_t row = block; row < end; row += kLanes) {
        MultiplyTile<Kind>(
            part, row, column, left.words + row / kLanes * left.panel_words,
            right.words + column / Kind::kRightLanes * right.panel_words);
      }
    }
  }
}

// Packs the panels [begin, end) of `operand`, which has `lanes` lanes, at the
// depths [from, from + depth).
template <typename Kind, int64_t kLanes>
void PackPanels(Operand operand, int64_t lanes, int64_t begin, int64_t end,
                int64_t from, int64_t depth, uint32_t* to) {
  constexpr int64_t kPerWord = kDepthPerWord<Kind::kOperands>;
  const int64_t panel_words = DivideUp(depth, kPerWord) * kLanes;
  // If lanes are neighbours, all panels take their part of a few rows of memory
  // before any goes on: each row may be in a page of its own.
  const int64_t step = operand.depth_stride == 1 ? depth : kRowsAtOnce;
  for (int64_t done = 0; done < depth; done += step) {
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t lane = panel * kLanes;
      const Operand first = {operand.data + lane * operand.lane_stride +
                                 (from + done) * operand.depth_stride,
                             operand.lane_stride, operand.depth_stride};
      gemm_internal::Pack<Kind, kLanes>(
          first, std::min(kLanes, lanes - lane), std::min(step, depth - done),
          to + (panel - begin) * panel_words + done / kPerWord * kLanes);
    }
  }
}

// One product. The smaller operand is the shared one: all threads read its
// panels, which they have packed together. Each thread packs the part of the
// other one that its block of c needs, a slice of depth at a time.
template <typename Kind, bool kSharesLeft>
class Product {
 public:
  Product(ThreadPool& pool, GemmShape shape, Operand left, Operand right,
          const GemmOutput<float>& output)
      : pool_(pool),
        shape_(shape),
        shared_(kSharesLeft ? left : right),
        own_(kSharesLeft ? right : left),
        output_(output) {}

  void Run() {
    const int64_t slices =
        std::max(kMinSharedSlices, kSharedWords / shared_lanes() / kSliceWords);
    const int64_t step = slices * kSlice;
    for (int64_t from = 0; from < shape_.k; from += step)
      RunDepths(from, std::min(step, shape_.k - from));
  }

 private:
  static constexpr int64_t kPerWord = kDepthPerWord<Kind::kOperands>;
  static constexpr int64_t kSlice = kSliceWords * kPerWord;
  static constexpr int64_t kSharedPanel =
      kSharesLeft ? Kind::kLeftLanes : Kind::kRightLanes;
  static constexpr int64_t kOwnPanel =
      kSharesLeft ? Kind::kRightLanes : Kind::kLeftLanes;
  static constexpr int64_t kMaxOwnPanels =
      (kSharesLeft ? kMaxRightLanes : kMaxLeftLanes) / kOwnPanel;

  int64_t shared_lanes() const { return kSharesLeft ? shape_.m : shape_.n; }
  int64_t own_lanes() const { return kSharesLeft ? shape_.n : shape_.m; }

  // Adds what the depths [from, from + depth) contribute.
  void RunDepths(int64_t from, int64_t depth) {
    const int64_t panels = DivideUp(shared_lanes(), kSharedPanel);
    const int64_t words = DivideUp(depth, kPerWord);
    const int64_t panel_words = words * kSharedPanel;
    auto* const packed =
        static_cast<uint32_t*>(GemmScratch(panels * panel_words * kWordBytes));
    const int64_t grain = std::max<int64_t>(1, kPackGrain / panel_words);
    pool_.ParallelFor(panels, grain, [&](int64_t begin, int64_t end) {
      PackPanels<Kind, kSharedPanel>(shared_, shared_lanes(), begin, end, from,
                                     depth, packed + begin * panel_words);
    });
    const Panels shared = {packed, panel_words};
    const int64_t own_panels = DivideUp(own_lanes(), kOwnPanel);
    const int64_t block =
        std::clamp<int64_t>(own_panels / kBlocks, 1, kMaxOwnPanels);
    pool_.ParallelFor(own_panels, block, [&](int64_t begin, int64_t end) {
      RunBlock(shared, begin, end, from, depth);
    });
  }

  // The same, to the part of c that the own operand's panels [begin, end) are
  // for.
  void RunBlock(Panels shared, int64_t begin, int64_t end, int64_t from,
                int64_t depth) {
    alignas(64) uint32_t packed[kMaxOwnPanels * kOwnPanel * kSliceWords];
    const int64_t first_lane = begin * kOwnPanel;
    const int64_t lanes = std::min(own_lanes(), end * kOwnPanel) - first_lane;
    for (int64_t done = 0; done < depth; done += kSlice) {
      const int64_t slice = std::min(kSlice, depth - done);
      const int64_t words = DivideUp(slice, kPerWord);
      PackPanels<Kind, kOwnPanel>(own_, own_lanes(), begin, end, from + done,
                                  slice, packed);
      const Part part =
          PartAt(first_lane, lanes, words, /*is_first=*/from + done == 0);
      const Panels own = {packed, words * kOwnPanel};
      const Panels other = {shared.words + done / kPerWord * kSharedPanel,
                            shared.panel_words};
      if constexpr (kSharesLeft) {
        Multiply<Kind>(part, other, own);
      } else {
        Multiply<Kind>(part, own, other);
      }
    }
  }

  Part PartAt(int64_t lane, int64_t lanes, int64_t words, bool is_first) const {
    const int64_t row = kSharesLeft ? 0 : lane;
    const int64_t column = kSharesLeft ? lane : 0;
    float* const c = output_.c + row * shape_.n + column;
    Start start = {c, shape_.n, 1};
    if (is_first && output_.write == Write::kSet) {
      start = output_.bias == nullptr ? Start{kZeros, 0, 0}
                                      : Start{output_.bias + column, 0, 1};
    }
    return {.rows = kSharesLeft ? shape_.m : lanes,
            .columns = kSharesLeft ? lanes : shape_.n,
            .words = words,
            .start = start,
            .c = c,
            .c_stride = shape_.n};
  }

  // Words that a thread packs at once for all.
  static constexpr int64_t kPackGrain = 32768;

  ThreadPool& pool_;
  const GemmShape shape_;
  const Operand shared_;
  const Operand own_;
  const GemmOutput<float>& output_;
};

template <typename Kind>
void RunProduct(ThreadPool& pool, GemmShape shape, Operand left, Operand right,
                const GemmOutput<float>& output) {
  if (shape.m <= shape.n) {
    Product<Kind, true>(pool, shape, left, right, output).Run();
  } else {
    Product<Kind, false>(pool, shape, left, right, output).Run();
  }
}

}  // namespace

bool HasDot() { return __builtin_cpu_supports("avx512bf16"); }

bool IsDotFaster() { return HasDot() && __builtin_cpu_is("amd"); }

void GemmPacked(ThreadPool& pool, Operands operands, GemmShape shape,
                Operand left, Operand right, const GemmOutput<float>& output) {
  const auto run = [&]<typename Kind>(Kind) {
    RunProduct<Kind>(pool, shape, left, right, output);
  };
  const bool is_rounded = operands == Operands::kRounded;
  if (CurrentIsa() == CpuIsa::kAvx2) {
    return is_rounded ? run(Avx2Panels<Operands::kRounded>())
                      : run(Avx2Panels<Operands::kFloat>());
  }
  if (operands == Operands::kDot) return run(Avx512Panels<Operands::kDot>());
  return is_rounded ? run(Avx512Panels<Operands::kRounded>())
                    : run(Avx512Panels<Operands::kFloat>());
}

}  // namespace ringmaster

#endif  // defined(__x86_64__)
