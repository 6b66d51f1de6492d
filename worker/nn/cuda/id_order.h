// IdOrder sorts the places of ids by id, on a GPU: what comes first stays first
// among equals, so that the order is the same each time.
//
// A radix sort by the least significant of digits of 8 bits, as many as the
// vocabulary needs: two of them for 65536 ids. In each pass every tile of ids
// counts its digits, each digit's counts are added up over the tiles, and each tile
// puts its places where they belong.
// Thread-safety: as CudaStream; errors are the stream's.
#ifndef RINGMASTER_WORKER_NN_CUDA_ID_ORDER_H_
#define RINGMASTER_WORKER_NN_CUDA_ID_ORDER_H_

#include <cstdint>

#include "worker/device/cuda/cuda_stream.h"

namespace ringmaster::cuda {

// Elements of scratch to sort `count` places or fewer.
int64_t IdOrderScratchElems(int64_t count);

// Returns where in `scratch` the sorted places [count] will lie: those of the
// smallest id first, in their order, and so on. `ids` [count] in [0, vocabulary)
// lie in device memory, like scratch; count is below 2^31.
const int32_t* SortPlacesById(CudaStream& stream, int64_t count,
                              int64_t vocabulary, const int32_t* ids,
                              int32_t* scratch);

}  // namespace ringmaster::cuda

#endif  // RINGMASTER_WORKER_NN_CUDA_ID_ORDER_H_
