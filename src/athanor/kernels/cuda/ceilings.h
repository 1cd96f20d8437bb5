// The measured ceilings of a CUDA device, for kernels/peak.h.
//
// 0 on an emulated device, and where the device has no room for the matrices. Thread rule: as the queue.
#pragma once

#include "athanor/kernels/cuda/queue.h"

namespace athanor::kernels {

// FLOP/s of the vendor's largest products: 8192 x 8192 x 8192 of random values (f32: 4096), the best of some runs. Takes
// about 50 ms and 400 MiB of the device.
double measure_device_flops(CudaQueue& queue, Dtype dtype);

// Bytes/s (read plus written) of a copy of 1 GiB between two places of the device, the best of some runs.
double measure_device_copy(CudaQueue& queue);

}  // namespace athanor::kernels
