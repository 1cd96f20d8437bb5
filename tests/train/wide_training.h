// Models whose matrices are of several norm blocks, so that ZeRO cuts parameters: the cases of its tests.
#pragma once

#include <ostream>

#include "train/small_training.h"

namespace athanor::tests {

struct WideCase {
  const char* family;
  const char* compute;
  double dropout;
  const char* optimizer;
  const char* recompute;
};

inline void PrintTo(const WideCase& c, std::ostream* out) {
  *out << c.family << " " << c.compute << " " << c.optimizer << " " << c.recompute
       << (c.dropout > 0 ? " dropout" : "");
}

inline Config wide(const WideCase& c) {
  Config config = tiny(c.family);
  config.model.hidden_size = 48;
  config.model.intermediate_size = 100;
  config.model.head_dim = 12;
  config.precision.compute = c.compute;
  config.model.dropout = c.dropout;
  config.optimizer.name = c.optimizer;
  config.parallel.recompute = c.recompute;
  config.parallel.bucket_bytes = 32 << 10;
  return config;
}

}  // namespace athanor::tests
