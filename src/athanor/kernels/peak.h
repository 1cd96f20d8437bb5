// The arithmetic ceiling of a queue, for MFU.
#pragma once

#include "athanor/tensor/dtype.h"

namespace athanor {

class Queue;

// FLOP/s of all threads of the queue running together, registers only: products of the best instruction set
// the queue may use on this dtype. Takes 10-20 ms; 0 on the null device.
double measure_peak_flops(Queue& queue, Dtype dtype);

}  // namespace athanor
