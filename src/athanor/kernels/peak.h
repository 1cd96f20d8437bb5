// The measured ceilings of a queue: peak arithmetic (for MFU) and memory bandwidth (for rooflines).
#pragma once

#include "athanor/tensor/dtype.h"
#include "athanor/tensor/forward.h"

namespace athanor::kernels {

// FLOP/s of all threads of the queue together, in multiply-adds on registers of the best instruction set that the queue
// may use for this dtype. Takes 10-20 ms, more on a busy machine. On a CUDA device: kernels/cuda/ceilings.h. 0 on the
// null device.
double measure_peak_flops(Queue& queue, Dtype dtype);

// Bytes/s (read plus written) of a copy by all threads between two large arrays: the better of plain and streaming
// stores. Takes about 0.5 s and 512 MiB (a CUDA device: 2 GiB of its memory); 0 on the null device.
double measure_copy_bandwidth(Queue& queue);

}  // namespace athanor::kernels
