#include "athanor/kernels/cuda/plugin.h"

#include <dlfcn.h>
#include <unistd.h>

#include "athanor/base/check.h"
#include "athanor/base/human.h"

namespace athanor::kernels {
namespace {

int count_devices(const CudaCalls& calls) {
  int count = 0;
  if (const char* error = calls.count_devices(&count))
    throw Error(fmt::format("cuda: no device can be used: {}", error),
                "the NVIDIA driver is missing, too old for this plug-in, or sees no device");
  return count;
}

CudaDevice description_of(const CudaCalls& calls, int device) {
  CudaDevice description{};
  const char* error = calls.describe(device, &description);
  if (error != nullptr) fail("cuda: device {} does not answer: {}", device, error);
  return description;
}

std::string text_of(const CudaDevice& d, int device) {
  std::string text =
      fmt::format("cuda {}: {}, {} ({} free), compute {}.{}, {} multiprocessors", device, d.name,
                  human_bytes(static_cast<double>(d.memory_bytes)),
                  human_bytes(static_cast<double>(d.free_bytes)), d.major, d.minor, d.multiprocessors);
  if (d.clock_mhz > 0) text += fmt::format(" at {} MHz", d.clock_mhz);
  if (d.driver_version > 0)
    text += fmt::format(", driver {}.{}", d.driver_version / 1000, d.driver_version % 1000 / 10);
  return text;
}

// The table of a module that is loaded for the rest of the process: CUDA's libraries have threads and handlers of their
// own.
template <typename Calls>
const Calls& load(const char* what, const std::string& path, const char* symbol, const char* absent_hint,
                  const char* libraries_hint) {
  if (::access(path.c_str(), R_OK) != 0)
    throw Error(fmt::format("{}: there is no plug-in {}", what, path), absent_hint);
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    const char* why = dlerror();
    throw Error(fmt::format("{}: cannot load {}: {}", what, path, why == nullptr ? "no reason given" : why),
                libraries_hint);
  }
  using Entry = const Calls* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(module, symbol));
  check(entry != nullptr, "{}: {} is not a plug-in of this program", what, path);
  const Calls& calls = *entry();
  check(calls.version == Calls::kVersion, "{}: the plug-in {} is of version {}, expected {}", what, path,
        calls.version, Calls::kVersion);
  return calls;
}

}  // namespace

const CudaCalls& load_cuda(const std::string& plugin_path) {
  return load<CudaCalls>(
      "cuda", plugin_path, "athanor_cuda_calls",
      "build it where nvcc is: cmake --preset cuda && cmake --build --preset cuda",
      "CUDA's libraries (cudart, cublasLt) of the version it was built with must be installed");
}

const NcclCalls& load_nccl(const std::string& module_path) {
  return load<NcclCalls>(
      "nccl", module_path, "athanor_nccl_calls",
      "build it where nvcc and NCCL are: cmake --preset cuda && cmake --build --preset cuda",
      "CUDA's runtime and NCCL of the version it was built with must be installed");
}

CudaDevice check_cuda_device(const CudaCalls& calls, int device) {
  const int count = count_devices(calls);
  check(device >= 0 && device < count, "cuda: got device {}, but there are {}", device, count);
  CudaDevice d = description_of(calls, device);
  check(10 * d.major + d.minor >= CudaCalls::kOldest,
        "cuda: {} is too old: got compute capability {}.{}, expected {}.{} or newer", d.name, d.major,
        d.minor, CudaCalls::kOldest / 10, CudaCalls::kOldest % 10);
  return d;
}

std::string describe_cuda(const std::string& plugin_path) {
  try {
    const CudaCalls& calls = load_cuda(plugin_path);
    std::string text;
    for (int device = 0; device < count_devices(calls); ++device) {
      const CudaDevice d = description_of(calls, device);
      text += (text.empty() ? "" : "; ") + text_of(d, device);
      if (10 * d.major + d.minor < CudaCalls::kOldest) text += " (too old)";
    }
    return text.empty() ? "cuda: there are no devices" : text;
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace athanor::kernels
