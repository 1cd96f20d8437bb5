// oneDNN's matrix products as a competitor to measure against, used in the fastest way: with all threads, with
// primitives made once, and with weights in the layout that oneDNN chooses.
//
//   set_onednn(queue.isa(), threads);                          // before the first product
//   auto peer = OnednnProduct::make({'n', 't', ...}, OnednnForm::packed, a, b, c);
//   if (peer) peer->run();                                     // null: oneDNN has no primitive for this problem
//
// Nothing else in the program uses oneDNN. Thread rule: one thread.
#pragma once

#include <memory>

#include "athanor/tensor/tensor.h"

namespace athanor::apps {

enum class OnednnForm {
  plain,     // operands as they lie
  packed,    // b was brought into oneDNN's layout before the clock started
  repacked,  // b is brought into oneDNN's layout by each call
};

const char* name_of(OnednnForm form);

// c [m,n] (+)= a [m,k] . b [k,n]; c is dense, a and b are dense or dense transposed.
struct OnednnProblem {
  int64_t m, n, k;
  bool transposed_a, transposed_b;
  bool accumulate;
};

class OnednnProduct {
 public:
  static std::unique_ptr<OnednnProduct> make(const OnednnProblem& problem, OnednnForm form, const Tensor& a,
                                             const Tensor& b, const Tensor& c);
  virtual ~OnednnProduct() = default;
  virtual void run() = 0;
};

// The highest instruction set that oneDNN may use, and its threads.
void set_onednn(Isa isa, int threads);
// Stops oneDNN's threads until its next product. They spin for milliseconds after each product and would take
// processors away from the next measurement.
void rest_onednn();

}  // namespace athanor::apps
