// The ceilings of a queue: arithmetic, for MFU, and memory.
#pragma once

#include "athanor/tensor/dtype.h"

namespace athanor {

class Queue;

// FLOP/s of all threads of the queue running together, registers only: products of the best instruction set
// the queue may use on this dtype. Takes 10-20 ms, more on a busy machine; 0 on the null device.
double measure_peak_flops(Queue& queue, Dtype dtype);

// Bytes/s, read and written ones together, of a copy by all threads between two large arrays: the best of
// plain and streaming stores. Takes about 0.5 s and 512 MiB; 0 on the null device.
double measure_copy_bandwidth(Queue& queue);

}  // namespace athanor
