// How fast a rank multiplies matrices.
//
//   const double gflop_per_s = measure_matrix_product({.threads = 4, .isa = best_isa(), .placement = placement});
//
// Products of 256 x 256 f32 matrices, one beside the other on each thread, by the kernels that the rank trains with, for about
// 10 ms; the median counts, so that a thread that waits for its processor now and then changes little. Errors: those of
// ThreadPool and Arena. Thread rule: any thread; the products run on threads of their own, bound as the rank's will be.
#pragma once

#include "athanor/base/cpu.h"
#include "athanor/base/topology.h"

namespace athanor::launch::warm_up {

struct MatrixProductOptions {
  int threads = 1;
  Isa isa = Isa::generic;
  Placement placement{};
};

double measure_matrix_product(const MatrixProductOptions& options);

}  // namespace athanor::launch::warm_up
