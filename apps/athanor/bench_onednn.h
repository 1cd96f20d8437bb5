// oneDNN's matrix products as a peer to measure against, called as strongly as it can be called: with all the
// threads it is given, primitives made once, weights in the layout that it chooses itself.
//
//   set_onednn(queue.isa(), threads);                          // before the first product
//   auto peer = OnednnProduct::make({'n', 't', ...}, OnednnForm::packed, a, b, c);
//   if (peer) peer->run();                                     // null: it has no primitive for this
//
// Nothing else in the program uses oneDNN. Thread rule: one thread.
#pragma once

#include <memory>

#include "athanor/tensor/tensor.h"

namespace athanor {

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
// Ends oneDNN's threads until its next product: they stay awake for milliseconds after each and would take processors
// away from whoever is measured next.
void rest_onednn();

}  // namespace athanor
