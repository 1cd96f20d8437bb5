// cuDNN's functions, found at run time: a machine without the library loses its fused attention and nothing else.
//
//   std::unique_ptr<Cudnn> cudnn = load_cudnn();       // null: there is no libcudnn.so.9 here
//   cudnn->create_descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &tensor);
//
// The names are those of the library's backend interface without their prefix. Thread rule: a handle has one thread at a
// time.
#pragma once

#include <cudnn.h>

#include <memory>

namespace athanor::kernels::cuda {

struct Cudnn {
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnDestroy) destroy = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnGetVersion) get_version = nullptr;
  decltype(&cudnnGetErrorString) error_string = nullptr;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor = nullptr;
  decltype(&cudnnBackendSetAttribute) set_attribute = nullptr;
  decltype(&cudnnBackendGetAttribute) get_attribute = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;

  const char* error_of(cudnnStatus_t status) const {
    return status == CUDNN_STATUS_SUCCESS ? nullptr : error_string(status);
  }
};

std::unique_ptr<Cudnn> load_cudnn();

}  // namespace athanor::kernels::cuda
