#include "worker/nn/cuda/cudnn_attention_graph.h"

#include <cmath>
#include <limits>
#include <utility>

namespace ringmaster::cuda {
namespace {

// The shapes of a graph's tensors, [samples,heads,rows,columns].
class Shapes {
 public:
  Shapes(AttentionShape shape, cudnnDataType_t type)
      : shape_(shape), type_(type) {}

  // Queries, keys or values, and their gradients: in qkv.
  CudnnTensorShape Part() const {
    const int64_t row = shape_.qkv_stride();
    return {{shape_.samples, shape_.heads, shape_.window, shape_.head_dim},
            {shape_.window * row, shape_.head_dim, row, 1},
            type_};
  }
  CudnnTensorShape Out() const {
    const int64_t row = shape_.heads * shape_.head_dim;
    return {{shape_.samples, shape_.heads, shape_.window, shape_.head_dim},
            {shape_.window * row, shape_.head_dim, row, 1},
            type_};
  }
  CudnnTensorShape QuerySums() const {
    const int64_t head = shape_.window * shape_.head_dim;
    return {{shape_.samples, shape_.heads, shape_.window, shape_.head_dim},
            {shape_.heads * head, head, shape_.head_dim, 1},
            CUDNN_DATA_FLOAT};
  }
  // One value for each query.
  CudnnTensorShape Rows() const {
    return {{shape_.samples, shape_.heads, shape_.window, 1},
            {shape_.heads * shape_.window, shape_.window, 1, 1},
            CUDNN_DATA_FLOAT};
  }
  // One value for each pair of a query and a key.
  CudnnTensorShape Scores(cudnnDataType_t type = CUDNN_DATA_FLOAT) const {
    const int64_t square = shape_.window * shape_.window;
    return {{shape_.samples, shape_.heads, shape_.window, shape_.window},
            {shape_.heads * square, square, shape_.window, 1},
            type};
  }
  cudnnDataType_t type() const { return type_; }
  bool is_causal() const { return shape_.is_causal; }
  float scale() const {
    return static_cast<float>(1 /
                              std::sqrt(static_cast<double>(shape_.head_dim)));
  }

 private:
  const AttentionShape shape_;
  const cudnnDataType_t type_;
};

// The same memory with rows for columns.
CudnnTensorShape Turned(CudnnTensorShape shape) {
  std::swap(shape.dims[2], shape.dims[3]);
  std::swap(shape.strides[2], shape.strides[3]);
  return shape;
}

// The scores as they are, and if they are causal, minus infinity for keys behind
// the query.
const CudnnTensor* Mask(CudnnGraph& graph, const Shapes& shapes,
                        const CudnnTensor* scores) {
  if (!shapes.is_causal()) return scores;
  const CudnnTensor* const query =
      graph.Virtual(shapes.Scores(CUDNN_DATA_INT32));
  const CudnnTensor* const key = graph.Virtual(shapes.Scores(CUDNN_DATA_INT32));
  const CudnnTensor* const is_visible =
      graph.Virtual(shapes.Scores(CUDNN_DATA_BOOLEAN));
  const CudnnTensor* const masked = graph.Virtual(shapes.Scores());
  graph.Index(2, scores, query);
  graph.Index(3, scores, key);
  graph.Pointwise(CUDNN_POINTWISE_CMP_GE, {query, key}, is_visible);
  graph.Pointwise(
      CUDNN_POINTWISE_BINARY_SELECT,
      {scores, graph.Number(std::numeric_limits<float>::lowest()), is_visible},
      masked);
  return masked;
}

// queries * keys^T / sqrt(head_dim)
const CudnnTensor* Scores(CudnnGraph& graph, const Shapes& shapes,
                          const CudnnTensor* queries, const CudnnTensor* keys,
                          const CudnnTensor* scale) {
  const CudnnTensor* const products = graph.Virtual(shapes.Scores());
  const CudnnTensor* const scores = graph.Virtual(shapes.Scores());
  graph.Matmul(queries, keys, products);
  graph.Pointwise(CUDNN_POINTWISE_MUL, {products, scale}, scores);
  return scores;
}

}  // namespace

CudnnGraph AttentionForwardGraph(const CudnnLibrary& library,
                                 AttentionShape shape, cudnnDataType_t type) {
  CudnnGraph graph(library);
  const Shapes shapes(shape, type);
  const CudnnTensor* const queries = graph.Real(kQueries, shapes.Part());
  const CudnnTensor* const keys = graph.Real(kKeys, Turned(shapes.Part()));
  const CudnnTensor* const values = graph.Real(kValues, shapes.Part());
  const CudnnTensor* const out = graph.Real(kOut, shapes.Out());
  const CudnnTensor* const log_sum_exp = graph.Real(kLogSumExp, shapes.Rows());

  const CudnnTensor* const scores =
      Mask(graph, shapes,
           Scores(graph, shapes, queries, keys, graph.Number(shapes.scale())));
  const CudnnTensor* const max = graph.Virtual(shapes.Rows());
  const CudnnTensor* const below_max = graph.Virtual(shapes.Scores());
  const CudnnTensor* const exponentials = graph.Virtual(shapes.Scores());
  const CudnnTensor* const sum = graph.Virtual(shapes.Rows());
  const CudnnTensor* const log_sum = graph.Virtual(shapes.Rows());
  const CudnnTensor* const weights = graph.Virtual(shapes.Scores(type));
  graph.Reduce(CUDNN_REDUCE_TENSOR_MAX, scores, max);
  graph.Pointwise(CUDNN_POINTWISE_SUB, {scores, max}, below_max);
  graph.Pointwise(CUDNN_POINTWISE_EXP, {below_max}, exponentials);
  graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, sum);
  graph.Pointwise(CUDNN_POINTWISE_LOG, {sum}, log_sum);
  graph.Pointwise(CUDNN_POINTWISE_ADD, {max, log_sum}, log_sum_exp);
  graph.Pointwise(CUDNN_POINTWISE_DIV, {exponentials, sum}, weights);
  graph.Matmul(weights, values, out);
  return graph;
}

CudnnGraph AttentionBackwardGraph(const CudnnLibrary& library,
                                  AttentionShape shape, cudnnDataType_t type,
                                  GradientOrder order) {
  CudnnGraph graph(library);
  const Shapes shapes(shape, type);
  const CudnnTensor* const queries = graph.Real(kQueries, shapes.Part());
  const CudnnTensor* const keys = graph.Real(kKeys, Turned(shapes.Part()));
  const CudnnTensor* const values = graph.Real(kValues, Turned(shapes.Part()));
  const CudnnTensor* const out = graph.Real(kOut, shapes.Out());
  const CudnnTensor* const dout = graph.Real(kDout, shapes.Out());
  const CudnnTensor* const log_sum_exp = graph.Real(kLogSumExp, shapes.Rows());
  const CudnnTensor* const deltas = graph.Real(kDeltas, shapes.Rows());
  const CudnnTensor* const dqueries = graph.Real(kDqueries, shapes.Part());
  const CudnnTensor* const dkeys = graph.Real(kDkeys, shapes.Part());
  const CudnnTensor* const dvalues = graph.Real(kDvalues, shapes.Part());
  const CudnnTensor* const scale = graph.Number(shapes.scale());

  // deltas = sum over the head's dimension of dout * out. (The factor of 1 is
  // where dropout would be.)
  CudnnTensorShape out_floats = shapes.Out();
  out_floats.type = CUDNN_DATA_FLOAT;
  const CudnnTensor* const dout_out = graph.Virtual(out_floats);
  const CudnnTensor* const row_sums = graph.Virtual(shapes.Rows());
  graph.Pointwise(CUDNN_POINTWISE_MUL, {dout, out}, dout_out);
  graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, dout_out, row_sums);
  graph.Pointwise(CUDNN_POINTWISE_MUL, {row_sums, graph.Number(1.0f)}, deltas);

  // weights = exp(scores - log_sum_exp); dvalues = weights^T * dout
  const CudnnTensor* const scores = Scores(graph, shapes, queries, keys, scale);
  const CudnnTensor* const logarithms = graph.Virtual(shapes.Scores());
  graph.Pointwise(CUDNN_POINTWISE_SUB, {scores, log_sum_exp}, logarithms);
  const CudnnTensor* const weights = graph.Virtual(shapes.Scores());
  graph.Pointwise(CUDNN_POINTWISE_EXP, {Mask(graph, shapes, logarithms)},
                  weights);
  const CudnnTensor* const turned_weights =
      graph.Virtual(Turned(shapes.Scores(type)));
  graph.Reshape(weights, turned_weights);
  graph.Matmul(turned_weights, dout, dvalues);

  // dscores = weights * (dout * values^T - deltas) / sqrt(head_dim)
  const CudnnTensor* const dweights = graph.Virtual(shapes.Scores());
  const CudnnTensor* const centred = graph.Virtual(shapes.Scores());
  const CudnnTensor* const unscaled = graph.Virtual(shapes.Scores());
  const CudnnTensor* const dscores = graph.Virtual(shapes.Scores(type));
  graph.Matmul(dout, values, dweights);
  graph.Pointwise(CUDNN_POINTWISE_SUB, {dweights, deltas}, centred);
  graph.Pointwise(CUDNN_POINTWISE_MUL, {centred, weights}, unscaled);
  graph.Pointwise(CUDNN_POINTWISE_MUL, {unscaled, scale}, dscores);

  // dkeys = dscores^T * queries; dqueries = dscores * keys
  const CudnnTensor* const turned_dscores =
      graph.Virtual(Turned(shapes.Scores(type)));
  graph.Reshape(dscores, turned_dscores);
  graph.Matmul(turned_dscores, queries, dkeys);
  const CudnnTensor* const plain_keys = graph.Virtual(shapes.Part());
  graph.Reshape(keys, plain_keys);
  if (order == GradientOrder::kFixed) {
    graph.Matmul(dscores, plain_keys, dqueries);
    return graph;
  }
  // A sum in memory tells cuDNN that it may add to it in any order.
  const CudnnTensor* const query_sums =
      graph.Real(kQuerySums, shapes.QuerySums());
  graph.Matmul(dscores, plain_keys, query_sums);
  graph.Pointwise(CUDNN_POINTWISE_IDENTITY, {query_sums}, dqueries);
  return graph;
}

}  // namespace ringmaster::cuda
