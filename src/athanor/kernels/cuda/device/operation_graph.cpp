#include "athanor/kernels/cuda/device/operation_graph.h"

#include <algorithm>

namespace athanor::kernels::cuda {
namespace {

constexpr int64_t kAlignment = 16;  // bytes, of every tensor in memory
constexpr int64_t kMostConfigs = 16;

}  // namespace

OperationGraph::~OperationGraph() {
  for (auto descriptor = all_.rbegin(); descriptor != all_.rend(); ++descriptor)
    cudnn_.destroy_descriptor(*descriptor);
}

OperationGraph::Descriptor OperationGraph::make(cudnnBackendDescriptorType_t type) {
  Descriptor descriptor = nullptr;
  if (error_ == nullptr) error_ = cudnn_.error_of(cudnn_.create_descriptor(type, &descriptor));
  if (descriptor != nullptr) all_.push_back(descriptor);
  return descriptor;
}

void OperationGraph::set(Descriptor descriptor, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  if (error_ == nullptr)
    error_ = cudnn_.error_of(cudnn_.set_attribute(descriptor, name, type, count, values));
}

void OperationGraph::finish(Descriptor descriptor) {
  if (error_ == nullptr) error_ = cudnn_.error_of(cudnn_.finalize(descriptor));
}

OperationGraph::Id OperationGraph::tensor(const Shape& shape, cudnnDataType_t type, bool is_virtual,
                                          bool is_value) {
  const Id id = static_cast<Id>(tensors_.size()) + 1;
  const Descriptor tensor = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  set(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
  set(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  set(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, shape.dims.data());
  set(tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, shape.strides.data());
  set(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &kAlignment);
  set(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  set(tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &is_value);
  finish(tensor);
  tensors_[id] = tensor;
  return id;
}

OperationGraph::Id OperationGraph::value(float number) {
  const Id id = tensor({{1, 1, 1, 1}, {1, 1, 1, 1}}, CUDNN_DATA_FLOAT, false, true);
  values_[id] = number;
  return id;
}

void OperationGraph::add_operation(Descriptor operation) {
  finish(operation);
  operations_.push_back(operation);
}

void OperationGraph::matmul(Id a, Id b, Id c) {
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  const Descriptor how = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  set(how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  finish(how);
  const Descriptor operation = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  set(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, tensors_[a]);
  set(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, tensors_[b]);
  set(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, tensors_[c]);
  set(operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
  add_operation(operation);
}

void OperationGraph::pointwise(cudnnPointwiseMode_t mode, std::initializer_list<Id> operands, Id y,
                               cudnnDataType_t compute, int64_t axis) {
  const Descriptor how = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  set(how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  set(how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  if (axis >= 0) set(how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
  finish(how);
  constexpr std::array kOperands = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                    CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                    CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  const Descriptor operation = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  set(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  size_t next = 0;
  for (const Id operand : operands) set(operation, kOperands.at(next++), tensors_[operand]);
  set(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensors_[y]);
  add_operation(operation);
}

void OperationGraph::reduce(cudnnReduceTensorOp_t mode, Id x, Id y) {
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  const Descriptor how = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  set(how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode);
  set(how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  finish(how);
  const Descriptor operation = make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  set(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, tensors_[x]);
  set(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, tensors_[y]);
  set(operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
  add_operation(operation);
}

void OperationGraph::reshape(Id x, Id y) {
  const Descriptor operation = make(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  set(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, tensors_[x]);
  set(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, tensors_[y]);
  add_operation(operation);
}

// Whether the engine of a configuration says nothing of results that differ from run to run.
bool OperationGraph::is_repeatable(Descriptor config) {
  Descriptor engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  int64_t count = 0;
  if (cudnn_.get_attribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                           &engine) != CUDNN_STATUS_SUCCESS)
    return false;
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  if (cudnn_.get_attribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes.size(),
                           &count, notes.data()) != CUDNN_STATUS_SUCCESS)
    return false;
  return std::count(notes.begin(), notes.begin() + count, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) == 0;
}

const char* OperationGraph::plan_with(cudnnHandle_t handle, Descriptor config) {
  error_ = nullptr;
  const Descriptor plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  finish(plan);
  if (error_ != nullptr) return error_;
  int64_t bytes = 0, count = 0;
  error_ = cudnn_.error_of(cudnn_.get_attribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                CUDNN_TYPE_INT64, 1, &count, &bytes));
  if (error_ != nullptr) return error_;
  plan_ = plan;
  workspace_bytes_ = static_cast<uint64_t>(bytes);
  return nullptr;
}

const char* OperationGraph::plan(cudnnHandle_t handle) {
  const Descriptor graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
      static_cast<int64_t>(operations_.size()), operations_.data());
  finish(graph);
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  const Descriptor heuristic = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  set(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  finish(heuristic);
  std::vector<Descriptor> configs;
  for (int64_t i = 0; i < kMostConfigs; ++i) configs.push_back(make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
  int64_t count = 0;
  if (error_ == nullptr)
    error_ = cudnn_.error_of(cudnn_.get_attribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, kMostConfigs, &count,
                                                  configs.data()));
  if (error_ != nullptr) return error_;
  const char* refusal = "cuDNN has no kernel for this graph";
  for (int64_t i = 0; i < count; ++i) {
    const Descriptor config = configs[static_cast<size_t>(i)];
    if (!is_repeatable(config)) continue;
    refusal = plan_with(handle, config);
    if (refusal == nullptr) return nullptr;
  }
  return refusal;
}

const char* OperationGraph::run(cudnnHandle_t handle, std::initializer_list<std::pair<Id, void*>> data,
                                void* workspace) {
  std::vector<Id> ids;
  std::vector<void*> pointers;
  for (const auto& [id, pointer] : data) {
    ids.push_back(id);
    pointers.push_back(pointer);
  }
  for (auto& [id, number] : values_) {
    ids.push_back(id);
    pointers.push_back(&number);
  }
  Descriptor pack = nullptr;
  error_ = cudnn_.error_of(cudnn_.create_descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack));
  if (error_ != nullptr) return error_;
  const auto count = static_cast<int64_t>(ids.size());
  set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
  set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers.data());
  set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  finish(pack);
  if (error_ == nullptr) error_ = cudnn_.error_of(cudnn_.execute(handle, plan_, pack));
  cudnn_.destroy_descriptor(pack);
  return error_;
}

}  // namespace athanor::kernels::cuda
