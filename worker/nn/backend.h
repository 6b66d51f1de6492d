// A Backend is the base class that a model is written on: where it computes. A
// model is one text for all of them:
//
//   template <typename Backend>
//   class Gpt final : public Backend { ... };
//
// CpuModel<T> (cpu_model.h) computes on this host's processors,
// cuda::CudaModel<T> (cuda/cuda_model.h) on a GPU. Beside what Model says, a
// backend gives a model:
//
//   Element            activations, and parameters as operators read them
//   Sum                gradients, and statistics that are kept between passes
//   Parts              what a model is made of, apart from its settings
//   PlacedBatch        a batch where the operators find it: size, inputs,
//                      pixels, targets, sample_ids, scale
//   ClassifierScratch  of Element
//   compute()          what operators run on
//   parameter(index), gradient(index)
//   statistic(index)   a running statistic (TensorSpec::tracking_rate), of Sum
//   DropoutAt(batch, rate, site, elems_per_sample)
//   PlaceContext(context, padding, window), ContextTokens(window, tokens),
//   FetchLogits(logits, count): for NextTokenLogits
//   kKeepsContext      whether a context may be known in part
//
// and asks of it:
//
//   Cut(cutter)      take the buffers for max_batch() samples
//   kind()           for messages: "gpt"
//   Train(batch, options, observer, sums)
//                    queue a training pass: add its loss to sums->loss_sum, and
//                    tell `observer` as ForwardBackward does
//   Evaluate(batch, sums)
//                    queue an evaluation: add to the rest of *sums
//   FillConstants()  queue, once, what fills buffers that no pass changes; may
//                    be left out
//   a constructor (parts, settings), and a static ReadSettings(config), which
//   gives the settings or says what is wrong with them
//
// Operators have the same name and the same parameters on each; argument-
// dependent lookup finds that of compute(). `sums` lies where operators write.
#ifndef RINGMASTER_WORKER_NN_BACKEND_H_
#define RINGMASTER_WORKER_NN_BACKEND_H_

#include <cstdint>

#include "common/transport/cancel_token.h"
#include "worker/nn/compute.h"

namespace ringmaster {

// The options of queueing a training pass; its data come with the batch. See
// TrainOptions.
struct PassOptions {
  Write write = Write::kSet;
  const CancelToken* cancel = nullptr;  // may be null

  bool is_cancelled() const {
    return cancel != nullptr && cancel->is_cancelled();
  }
};

// The sums that passes add to.
struct PassSums {
  double loss_sum = 0;        // of training passes
  double predicted_loss = 0;  // of one Predict
  int64_t correct = 0;        // of one Predict
};

// The end of a text, where the operators find it, as a batch of one sample.
template <typename PlacedBatch>
struct PlacedContext {
  PlacedBatch batch;
  int64_t tokens = 0;  // that the sample has, with its padding
  int64_t last = 0;    // index of the text's last token among them
  // The first tokens whose values the model still has from the last call, where
  // the backend keeps contexts: less than `tokens`.
  int64_t known = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_NN_BACKEND_H_
