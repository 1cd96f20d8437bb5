// Finding a CUDA device at run time: the plug-in is loaded, asked what there is, and refused by name where it cannot
// serve.
//
//   const CudaCalls& cuda = load_cuda(folder_of_the_program + "/athanor_cuda.so");
//   check_cuda_device(cuda, 0);
//   auto queue = make_cuda_queue(cuda, 0, &pool);           // kernels/cuda/queue.h
//
// Errors: Error with a hint where the plug-in is missing, cannot be loaded (CUDA's libraries are not installed), is
// of another version, or the driver or the device is missing or too old. Thread rule: plain functions.
#pragma once

#include <string>

#include "athanor/kernels/cuda/calls.h"
#include "athanor/kernels/cuda/nccl_calls.h"

namespace athanor {

const CudaCalls& load_cuda(const std::string& plugin_path);

// The same of the module athanor_nccl.so, with NCCL's libraries.
const NcclCalls& load_nccl(const std::string& module_path);

// The device, if the program can run on it.
CudaDevice check_cuda_device(const CudaCalls& calls, int device);

// One line for doctor: "cuda 0: NVIDIA H100, 80.0 GiB (79.1 free), compute 9.0, driver 13.0", or why there is none.
std::string describe_cuda(const std::string& plugin_path);

}  // namespace athanor
