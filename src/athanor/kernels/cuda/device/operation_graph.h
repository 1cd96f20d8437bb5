// A graph of cuDNN operations on four-dimensional tensors, and the plan by which it runs as one kernel.
//
//   OperationGraph graph(cudnn);
//   const auto a = graph.input({{1, 1, m, k}, {m * k, m * k, k, 1}}, CUDNN_DATA_BFLOAT16), b = graph.input(...);
//   const auto c = graph.matmul(a, b, shape_of_c, CUDNN_DATA_FLOAT);                    // virtual: it has no memory
//   const auto d = graph.input(shape_of_c, CUDNN_DATA_BFLOAT16);
//   graph.pointwise(CUDNN_POINTWISE_MUL, {c, graph.value(0.5f)}, d);
//   if (const char* error = graph.plan(handle)) ...                     // no kernel of the library can run it
//   graph.run(handle, {{a, a_data}, {b, b_data}, {d, d_data}}, workspace);
//
// Only plans whose bits are the same each time are taken. Errors: the text of the first call that failed, from plan() and
// run(); calls before plan() record it. Thread rule: as the handle. Source: the backend interface of cuDNN 9.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <utility>
#include <vector>

#include "athanor/kernels/cuda/device/cudnn.h"

namespace athanor::kernels::cuda {

class OperationGraph {
 public:
  using Id = int64_t;
  struct Shape {
    std::array<int64_t, 4> dims, strides;
  };

  explicit OperationGraph(const Cudnn& cudnn) : cudnn_(cudnn) {}
  ~OperationGraph();
  OperationGraph(const OperationGraph&) = delete;
  OperationGraph& operator=(const OperationGraph&) = delete;

  Id input(const Shape& shape, cudnnDataType_t type) {
    return tensor(shape, type, false, false);
  }  // or output
  Id between(const Shape& shape, cudnnDataType_t type) { return tensor(shape, type, true, false); }
  Id value(float number);  // may be changed later: set_value()
  void set_value(Id id, float number) { values_[id] = number; }

  void matmul(Id a, Id b, Id c);
  // y = mode(operands): x, or x and b, or x, b and the condition t.
  void pointwise(cudnnPointwiseMode_t mode, std::initializer_list<Id> operands, Id y,
                 cudnnDataType_t compute = CUDNN_DATA_FLOAT, int64_t axis = -1);
  void reduce(cudnnReduceTensorOp_t mode, Id x, Id y);
  void reshape(Id x, Id y);

  const char* plan(cudnnHandle_t handle);
  uint64_t workspace_bytes() const { return workspace_bytes_; }
  const char* run(cudnnHandle_t handle, std::initializer_list<std::pair<Id, void*>> data, void* workspace);

 private:
  using Descriptor = cudnnBackendDescriptor_t;

  Id tensor(const Shape& shape, cudnnDataType_t type, bool is_virtual, bool is_value);
  Descriptor make(cudnnBackendDescriptorType_t type);
  void set(Descriptor descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           int64_t count, const void* values);
  void set(Descriptor descriptor, cudnnBackendAttributeName_t name, Descriptor value) {
    set(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
  }
  void finish(Descriptor descriptor);
  void add_operation(Descriptor operation);
  bool is_repeatable(Descriptor config);
  const char* plan_with(cudnnHandle_t handle, Descriptor config);

  const Cudnn& cudnn_;
  const char* error_ = nullptr;
  std::vector<Descriptor> all_, operations_;
  std::map<Id, Descriptor> tensors_;
  std::map<Id, float> values_;
  Descriptor plan_ = nullptr;
  uint64_t workspace_bytes_ = 0;
};

}  // namespace athanor::kernels::cuda
