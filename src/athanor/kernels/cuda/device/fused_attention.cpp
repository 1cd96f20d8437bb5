#include "athanor/kernels/cuda/device/fused_attention.h"

#include <array>
#include <limits>
#include <map>
#include <memory>

#include "athanor/kernels/cuda/device/operation_graph.h"
#include "athanor/kernels/cuda/device/stream.h"

namespace athanor::kernels {
namespace cuda {
namespace {

using Id = OperationGraph::Id;
using Shape = OperationGraph::Shape;

constexpr cudnnDataType_t kSum = CUDNN_DATA_FLOAT;

// What a graph depends on; the scale is given with each run.
using Key = std::array<int64_t, 10>;

Key key_of(Dtype type, const CudaAttention& p, bool backward) {
  return {static_cast<int64_t>(type),
          backward ? 1 : 0,
          p.batch,
          p.heads,
          p.kv_heads,
          p.head_dim,
          p.all_queries,
          p.queries,
          p.all_keys,
          p.causal ? -p.keys : p.keys};
}

// The shapes of a problem as the library sees them: [batch, head, row, column].
struct Shapes {
  explicit Shapes(const CudaAttention& problem)
      : b(problem.batch),
        h(problem.heads),
        g(problem.kv_heads),
        t(problem.queries),
        s(problem.keys),
        d(problem.head_dim),
        p(problem) {}
  Shape q() const { return {{b, h, t, d}, {p.all_queries * h * d, d, h * d, 1}}; }
  Shape k() const { return {{b, g, s, d}, {p.all_keys * g * d, d, g * d, 1}}; }
  Shape k_transposed() const { return {{b, g, d, s}, {p.all_keys * g * d, d, 1, g * d}}; }
  Shape per_query() const { return {{b, h, t, 1}, {h * p.all_queries, p.all_queries, 1, 1}}; }
  Shape sums() const { return {{b, h, t, 1}, {h * t, t, 1, 1}}; }
  Shape scores() const { return {{b, h, t, s}, {h * t * s, t * s, s, 1}}; }
  Shape scores_transposed() const { return {{b, h, s, t}, {h * t * s, t * s, 1, s}}; }
  Shape keys_of_all_heads() const { return {{b, h, s, d}, {h * s * d, s * d, d, 1}}; }
  Shape outputs() const { return {{b, h, t, d}, {h * t * d, t * d, d, 1}}; }
  int64_t b, h, g, t, s, d;
  const CudaAttention& p;
};

struct Plan {
  explicit Plan(const Cudnn& cudnn) : graph(cudnn) {}
  OperationGraph graph;
  Id q = 0, k = 0, v = 0, o = 0, lse = 0, d_o = 0, dq = 0, dk = 0, dv = 0, delta = 0, scale = 0;
  bool can = false;
};

// The scores that a query does not see become -infinity.
Id masked(OperationGraph& graph, const Shapes& shapes, Id scores) {
  const Id row = graph.between(shapes.scores(), CUDNN_DATA_INT32),
           column = graph.between(shapes.scores(), CUDNN_DATA_INT32),
           seen = graph.between(shapes.scores(), CUDNN_DATA_BOOLEAN),
           result = graph.between(shapes.scores(), kSum);
  graph.pointwise(CUDNN_POINTWISE_GEN_INDEX, {scores}, row, kSum, 2);
  graph.pointwise(CUDNN_POINTWISE_GEN_INDEX, {scores}, column, kSum, 3);
  graph.pointwise(CUDNN_POINTWISE_CMP_GE, {row, column}, seen, CUDNN_DATA_BOOLEAN);
  const Id lowest = graph.value(-std::numeric_limits<float>::infinity());
  graph.pointwise(CUDNN_POINTWISE_BINARY_SELECT, {scores, lowest, seen}, result);
  return result;
}

// y = mode(operands) with a new virtual y.
Id next(OperationGraph& graph, const Shape& shape, cudnnDataType_t type, cudnnPointwiseMode_t mode,
        std::initializer_list<Id> operands) {
  const Id y = graph.between(shape, type);
  graph.pointwise(mode, operands, y);
  return y;
}

void build_forward(Plan& plan, const Shapes& shapes, cudnnDataType_t type) {
  OperationGraph& graph = plan.graph;
  plan.q = graph.input(shapes.q(), type);
  plan.k = graph.input(shapes.k_transposed(), type);
  plan.v = graph.input(shapes.k(), type);
  plan.o = graph.input(shapes.q(), type);
  plan.lse = graph.input(shapes.per_query(), kSum);
  plan.scale = graph.value(1.0f);
  const Id products = graph.between(shapes.scores(), kSum);
  graph.matmul(plan.q, plan.k, products);
  Id scores = next(graph, shapes.scores(), kSum, CUDNN_POINTWISE_MUL, {products, plan.scale});
  if (shapes.p.causal) scores = masked(graph, shapes, scores);
  const Id largest = graph.between(shapes.sums(), kSum), total = graph.between(shapes.sums(), kSum);
  graph.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, largest);
  const Id shifted = next(graph, shapes.scores(), kSum, CUDNN_POINTWISE_SUB, {scores, largest});
  const Id powers = next(graph, shapes.scores(), kSum, CUDNN_POINTWISE_EXP, {shifted});
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, powers, total);
  const Id logarithm = next(graph, shapes.sums(), kSum, CUDNN_POINTWISE_LOG, {total});
  graph.pointwise(CUDNN_POINTWISE_ADD, {largest, logarithm}, plan.lse);
  const Id shares = next(graph, shapes.scores(), type, CUDNN_POINTWISE_DIV, {powers, total});
  graph.matmul(shares, plan.v, plan.o);
}

// The gradient of keys or values: left [B,H,S,T] . right [B,H,T,D], summed over the heads that share a key.
void key_gradient(OperationGraph& graph, const Shapes& shapes, cudnnDataType_t type, Id left, Id right,
                  Id result) {
  if (shapes.h == shapes.g) return graph.matmul(left, right, result);
  const Id of_heads = graph.between(shapes.keys_of_all_heads(), type);
  graph.matmul(left, right, of_heads);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, of_heads, result);
}

Id transposed(OperationGraph& graph, const Shapes& shapes, cudnnDataType_t type, Id scores) {
  const Id result = graph.between(shapes.scores_transposed(), type);
  graph.reshape(scores, result);
  return result;
}

void build_backward(Plan& plan, const Shapes& shapes, cudnnDataType_t type) {
  OperationGraph& graph = plan.graph;
  plan.q = graph.input(shapes.q(), type);
  plan.k = graph.input(shapes.k_transposed(), type);
  plan.v = graph.input(shapes.k_transposed(), type);
  plan.o = graph.input(shapes.q(), type);
  plan.d_o = graph.input(shapes.q(), type);
  plan.lse = graph.input(shapes.per_query(), kSum);
  plan.delta = graph.input(shapes.sums(), kSum);
  plan.dq = graph.input(shapes.q(), type);
  plan.dk = graph.input(shapes.k(), type);
  plan.dv = graph.input(shapes.k(), type);
  plan.scale = graph.value(1.0f);
  const Id one = graph.value(1.0f);

  const Id product = next(graph, shapes.outputs(), kSum, CUDNN_POINTWISE_MUL, {plan.d_o, plan.o});
  const Id sum = graph.between(shapes.sums(), kSum);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, product, sum);
  graph.pointwise(CUDNN_POINTWISE_MUL, {sum, one}, plan.delta);

  const Id products = graph.between(shapes.scores(), kSum);
  graph.matmul(plan.q, plan.k, products);
  const Id scaled = next(graph, shapes.scores(), kSum, CUDNN_POINTWISE_MUL, {products, plan.scale});
  Id shifted = next(graph, shapes.scores(), kSum, CUDNN_POINTWISE_SUB, {scaled, plan.lse});
  if (shapes.p.causal) shifted = masked(graph, shapes, shifted);
  const Id shares = next(graph, shapes.scores(), kSum, CUDNN_POINTWISE_EXP, {shifted});
  key_gradient(graph, shapes, type, transposed(graph, shapes, type, shares), plan.d_o, plan.dv);

  const Id d_shares = graph.between(shapes.scores(), kSum);
  graph.matmul(plan.d_o, plan.v, d_shares);
  const Id centred = next(graph, shapes.scores(), kSum, CUDNN_POINTWISE_SUB, {d_shares, plan.delta});
  const Id weighted = next(graph, shapes.scores(), kSum, CUDNN_POINTWISE_MUL, {centred, shares});
  const Id d_scores = next(graph, shapes.scores(), kSum, CUDNN_POINTWISE_MUL, {weighted, plan.scale});
  key_gradient(graph, shapes, type, transposed(graph, shapes, type, d_scores), plan.q, plan.dk);

  const Id keys = graph.between(shapes.k(), type);
  graph.reshape(plan.k, keys);
  graph.matmul(d_scores, keys, plan.dq);
}

bool fits(Dtype type, const CudaAttention& p) {
  return (type == Dtype::bf16 || type == Dtype::f16) && p.head_dim % 8 == 0 && p.first_keys == nullptr &&
         (!p.causal || p.queries == p.keys) && p.queries > 1 && p.keys > 1;
}

// Versions before 9.15.1 compute wrong gradients where the keys do not fill their tiles.
bool has_fault(const Cudnn& cudnn, const CudaAttention& p, bool backward) {
  constexpr int64_t kTile = 128;
  constexpr size_t kMended = 91501;
  return backward && p.keys % kTile != 0 && cudnn.get_version() < kMended;
}

const void* at(const void* data, int64_t element) {
  return static_cast<const std::byte*>(data) + 2 * element;
}
void* mutable_at(const void* data, int64_t element) {
  return const_cast<void*>(at(data, element));
}

}  // namespace
}  // namespace cuda

struct AttentionPlans {
  std::unique_ptr<cuda::Cudnn> cudnn;
  cudnnHandle_t handle = nullptr;
  std::map<cuda::Key, std::unique_ptr<cuda::Plan>> plans;
};

namespace cuda {
namespace {

// The graph for a problem, made when it is asked for first; Plan::can says whether the library can run it.
Plan& plan_of(CudaCalls::Stream* stream, Dtype type, const CudaAttention& p, bool backward) {
  AttentionPlans& all = *stream->attention;
  std::unique_ptr<Plan>& plan = all.plans[key_of(type, p, backward)];
  if (plan != nullptr) return *plan;
  plan = std::make_unique<Plan>(*all.cudnn);
  if (has_fault(*all.cudnn, p, backward)) return *plan;
  if (all.handle == nullptr && (cudaSetDevice(stream->device) != cudaSuccess ||
                                all.cudnn->create(&all.handle) != CUDNN_STATUS_SUCCESS ||
                                all.cudnn->set_stream(all.handle, stream->stream) != CUDNN_STATUS_SUCCESS))
    return *plan;
  const cudnnDataType_t of_elements = type == Dtype::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
  if (backward)
    build_backward(*plan, Shapes(p), of_elements);
  else
    build_forward(*plan, Shapes(p), of_elements);
  plan->can = plan->graph.plan(all.handle) == nullptr;
  return *plan;
}

struct Places {
  int64_t query, key, row;
};
Places places_of(const CudaAttention& p) {
  return {p.first_query * p.heads * p.head_dim, p.first_key * p.kv_heads * p.head_dim, p.first_query};
}

}  // namespace

AttentionPlans* open_attention_plans() {
  auto cudnn = load_cudnn();
  return cudnn == nullptr ? nullptr : new AttentionPlans{std::move(cudnn), nullptr, {}};
}

void close_attention_plans(AttentionPlans* plans) {
  plans->plans.clear();
  if (plans->handle != nullptr) plans->cudnn->destroy(plans->handle);
  delete plans;
}

const char* fused_attention_plan(CudaCalls::Stream* stream, Dtype type, const CudaAttention& problem,
                                 bool backward, bool* can, uint64_t* workspace_bytes) {
  *can = false;
  *workspace_bytes = 0;
  if (stream->attention == nullptr || !fits(type, problem)) return nullptr;
  constexpr uint64_t kMostBytes = uint64_t{8}
                                  << 30;  // beyond it a long context would not fit for its workspace alone
  const Plan& plan = plan_of(stream, type, problem, backward);
  *can = plan.can && plan.graph.workspace_bytes() <= kMostBytes;
  *workspace_bytes = *can ? plan.graph.workspace_bytes() : 0;
  return nullptr;
}

const char* fused_attention_forward(CudaCalls::Stream* stream, Dtype type, void* o, float* lse, const void* q,
                                    const void* k, const void* v, const CudaAttention& problem,
                                    void* workspace) {
  Plan& plan = plan_of(stream, type, problem, /*backward=*/false);
  const Places place = places_of(problem);
  plan.graph.set_value(plan.scale, problem.scale);
  return plan.graph.run(stream->attention->handle,
                        {{plan.q, mutable_at(q, place.query)},
                         {plan.k, mutable_at(k, place.key)},
                         {plan.v, mutable_at(v, place.key)},
                         {plan.o, mutable_at(o, place.query)},
                         {plan.lse, lse + place.row}},
                        workspace);
}

const char* fused_attention_backward(CudaCalls::Stream* stream, Dtype type, void* dq, void* dk, void* dv,
                                     const void* d_o, const void* o, const float* lse, float* delta,
                                     const void* q, const void* k, const void* v,
                                     const CudaAttention& problem, void* workspace) {
  Plan& plan = plan_of(stream, type, problem, /*backward=*/true);
  const Places place = places_of(problem);
  plan.graph.set_value(plan.scale, problem.scale);
  return plan.graph.run(stream->attention->handle,
                        {{plan.q, mutable_at(q, place.query)},
                         {plan.k, mutable_at(k, place.key)},
                         {plan.v, mutable_at(v, place.key)},
                         {plan.o, mutable_at(o, place.query)},
                         {plan.d_o, mutable_at(d_o, place.query)},
                         {plan.lse, const_cast<float*>(lse) + place.row},
                         {plan.delta, delta},
                         {plan.dq, mutable_at(dq, place.query)},
                         {plan.dk, mutable_at(dk, place.key)},
                         {plan.dv, mutable_at(dv, place.key)}},
                        workspace);
}

}  // namespace cuda
}  // namespace athanor::kernels
