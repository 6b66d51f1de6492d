// Rotary position embedding (Su et al., "RoFormer", 2021), on the way from a
// block's queries, keys and values to what attention reads (attention.h).
//
// Elements i and i + head_dim / 2 of a head are a point that is turned by the
// angle position * theta^(-2 i / head_dim), as Hugging Face's Llama has it.
// Heads of queries share heads of keys and values (grouped-query attention,
// Ainslie et al., 2023): query head h reads head h / (heads / kv_heads), which is
// written for each of them.
//
// Shapes: q, dq [rows, heads * head_dim]; k, dk, v, dv [rows, kv_heads *
// head_dim]; qkv, dqkv [rows, 3 * heads * head_dim], with rows = samples *
// window; table [window, head_dim]: for each position the cosines of its angles,
// then their sines. heads is a multiple of kv_heads, head_dim is even. Outputs
// must not overlap inputs. T is float or double.
// Guarantees: the same result, to the bit, for every size of the pool. Nothing
// is allocated.
// Thread-safety: as Compute.
#ifndef RINGMASTER_WORKER_NN_ROTARY_H_
#define RINGMASTER_WORKER_NN_ROTARY_H_

#include <cstdint>

#include "worker/nn/compute.h"

namespace ringmaster {

struct RotaryShape {
  int64_t samples;
  int64_t window;
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;
};

// table =; angles are computed in double.
template <typename T>
void RotaryTable(const Compute& compute, int64_t window, int64_t head_dim,
                 double theta, T* table);

// qkv =
template <typename T>
void RotaryForward(const Compute& compute, const RotaryShape& shape, const T* q,
                   const T* k, const T* v, const T* table, T* qkv);

// dq =, dk =, dv =
template <typename T>
void RotaryBackward(const Compute& compute, const RotaryShape& shape,
                    const T* dqkv, const T* table, T* dq, T* dk, T* dv);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_ROTARY_H_
