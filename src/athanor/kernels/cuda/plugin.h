// Finds a CUDA device at run time: loads the plug-in, asks it for devices, and explains what is wrong if it cannot be
// used.
//
//   const CudaCalls& cuda = load_cuda(folder_of_the_program + "/athanor_cuda.so");
//   check_cuda_device(cuda, 0);
//   auto queue = make_cuda_queue(cuda, 0, &pool);           // kernels/cuda/queue.h
//
// Errors: Error with a hint if the plug-in is missing, cannot be loaded (CUDA's libraries are not installed) or is of
// another version, or if the driver or the device is missing or too old. Thread rule: plain functions.
#pragma once

#include <string>

#include "athanor/kernels/cuda/calls.h"
#include "athanor/kernels/cuda/nccl_calls.h"

namespace athanor::kernels {

const CudaCalls& load_cuda(const std::string& plugin_path);

// The same for the module athanor_nccl.so, which is linked with NCCL.
const NcclCalls& load_nccl(const std::string& module_path);

// The device's description; Error if the program cannot run on it.
CudaDevice check_cuda_device(const CudaCalls& calls, int device);

// One line for doctor: "cuda 0: NVIDIA H100, 80.0 GiB (79.1 free), compute 9.0, driver 13.0", or why there is no
// device.
std::string describe_cuda(const std::string& plugin_path);

}  // namespace athanor::kernels
