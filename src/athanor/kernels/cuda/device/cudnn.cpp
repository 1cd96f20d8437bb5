#include "athanor/kernels/cuda/device/cudnn.h"

#include <dlfcn.h>

namespace athanor::kernels::cuda {

// The library stays loaded for the rest of the process, as CUDA's own do.
std::unique_ptr<Cudnn> load_cudnn() {
  void* library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  auto cudnn = std::make_unique<Cudnn>();
  bool found_all = true;
  const auto find = [&]<typename Function>(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    found_all = found_all && function != nullptr;
  };
  find(cudnn->create, "cudnnCreate");
  find(cudnn->destroy, "cudnnDestroy");
  find(cudnn->set_stream, "cudnnSetStream");
  find(cudnn->get_version, "cudnnGetVersion");
  find(cudnn->error_string, "cudnnGetErrorString");
  find(cudnn->create_descriptor, "cudnnBackendCreateDescriptor");
  find(cudnn->destroy_descriptor, "cudnnBackendDestroyDescriptor");
  find(cudnn->set_attribute, "cudnnBackendSetAttribute");
  find(cudnn->get_attribute, "cudnnBackendGetAttribute");
  find(cudnn->finalize, "cudnnBackendFinalize");
  find(cudnn->execute, "cudnnBackendExecute");
  return found_all ? std::move(cudnn) : nullptr;
}

}  // namespace athanor::kernels::cuda
