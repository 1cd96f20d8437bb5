// Scaled rotary frequencies: how a model reads positions beyond those of its training. Without scaling, pair i of a head
// of D elements turns by f_i = base^(-2i/D) per position. With factor s and original length L:
//
//   linear   f_i / s (Chen et al., "Extending context window by position interpolation", 2023)
//   ntk      the base becomes base * s^(D/(D-2)), so the first pair is kept and the last one divided by s (bloc97, 2023)
//   llama3   pairs with a wavelength 2 pi / f_i below L / high_freq_factor are kept, those above L / low_freq_factor
//            divided by s, between them both are mixed (Llama 3.1, 2024)
//   yarn     pairs that turn more than beta_fast times within L are kept, those below beta_slow times divided by s, with
//            a ramp over the pairs between; cosine and sine are multiplied by 0.1 ln s + 1 (Peng et al., YaRN, 2023)
//
//   const RopeScaling scaling{.method = "yarn", .factor = 4.0, .original_length = 4096};
//   const std::vector<double> f = rope_frequencies(scaling, /*base=*/10000.0, /*head_dim=*/128);    // [D/2]
//   const double factor = rope_magnitude(scaling);                                                  // 1.1386...
//
// `truncate` rounds the ends of yarn's ramp outward to whole pairs, as its authors do; gpt-oss does not. All is computed
// in double. Errors: Error for an unknown method. Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::nn {

struct RopeScaling {
  std::string method = "none";  // none, linear, ntk, llama3, yarn
  double factor = 1.0;
  int64_t original_length = 0;  // positions that the model was trained with
  double low_freq_factor = 1.0, high_freq_factor = 4.0;
  double beta_fast = 32.0, beta_slow = 1.0;
  bool truncate = true;
  double attention_factor = 0.0;  // yarn: on cosine and sine; 0: 0.1 ln factor + 1
};

std::vector<double> rope_frequencies(const RopeScaling& scaling, double base, int64_t head_dim);
double rope_magnitude(const RopeScaling& scaling);

}  // namespace athanor::nn
