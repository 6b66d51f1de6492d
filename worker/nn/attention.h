// Self-attention: out[q] = sum over k of softmax(Q K^T / sqrt(head_dim))[q,k] *
// V[k], for every sample and head. A causal one has k <= q.
//
// In tiles of queries and keys, so that no window x window matrix is ever in
// memory: Dao et al., "FlashAttention", NeurIPS 2022, with the running softmax
// of Milakov & Gimelshein, "Online normalizer calculation for softmax", 2018.
// Tiles that nobody sees are skipped. Forward leaves the logarithm of each
// row's sum, from which backward computes the probabilities again, tile by
// tile.
//
// Shapes: qkv, dqkv [samples,window,3,heads,head_dim], which is what one linear
// operator of GPT-2 gives (queries, keys, values), or
// [3,samples,window,heads,head_dim], as three operators do; out, dout
// [samples,window,heads,head_dim]; log_sum_exp [samples,heads,window]. Every
// output is overwritten (=). Outputs must not overlap inputs. T is float or
// double. A value that is not finite may also spoil up to 7 rows before its
// own, whose zero probabilities it is multiplied with.
// A sample that has a length ends there: what follows is padding, which no
// query sees. Its own out, log_sum_exp and gradients are 0.
// Dropout is of probabilities: elems_per_sample = heads * window * window,
// which is at most 2^32; element (h, q, k). A rate of 0 costs nothing.
// Precision: float in either precision of Compute.
// Threads: a (sample, head) is one block of the pool's loop, so results do not
// depend on the pool. Each thread keeps a scratch of about 3 * window *
// head_dim elements and a few tiles, made when it first meets the size.
// Thread-safety: as compute.h says.
#ifndef RINGMASTER_WORKER_NN_ATTENTION_H_
#define RINGMASTER_WORKER_NN_ATTENTION_H_

#include <cstdint>

#include "worker/nn/compute.h"

namespace ringmaster {

struct AttentionShape {
  int64_t samples;
  int64_t window;
  int64_t heads;
  int64_t head_dim;
  bool is_causal = true;
  // Queries, keys and values lie apart: qkv [3,samples,window,heads,head_dim].
  bool is_apart = false;
  // [samples], in [1, window]; null: all are `window`.
  const int32_t* lengths = nullptr;

  // Elements of qkv from one row to the next, and from queries to keys.
  int64_t qkv_stride() const { return (is_apart ? 1 : 3) * heads * head_dim; }
  int64_t part_stride() const {
    return (is_apart ? samples * window : 1) * heads * head_dim;
  }
};

// out =, log_sum_exp =
template <typename T>
void AttentionForward(const Compute& compute, AttentionShape shape,
                      const Dropout& dropout, const T* qkv, T* out,
                      T* log_sum_exp);

// The same for the rows of `out` from `first` on, of one sample, causal and
// without dropout: out [window - first, heads, head_dim] =. So a text that
// grows by a token costs one row.
template <typename T>
void AttentionOfLast(const Compute& compute, AttentionShape shape,
                     int64_t first, const T* qkv, T* out);

// Elements of scratch that AttentionBackward is given: none, threads have their
// own.
inline int64_t AttentionScratchElems(const Compute& /*compute*/,
                                     AttentionShape /*shape*/) {
  return 0;
}

// dqkv =, from what forward was given and gave.
template <typename T>
void AttentionBackward(const Compute& compute, AttentionShape shape,
                       const Dropout& dropout, const T* dout, const T* qkv,
                       const T* out, const T* log_sum_exp, T* scratch, T* dqkv);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_ATTENTION_H_
