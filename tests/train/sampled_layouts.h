// A sample of layouts of two to four ranks with features of a training, so that every pair of values that is legal at all
// stands in one of its rows: pp 2 beside int8, zero 3 beside f16, and so on.
//
//   for (const SampledLayout& row : sampled_layouts("llama", excluded).rows) train(row.config);
//
// Candidates are drawn by a fixed seed, sizes and schedules of enumerate() (layout/enumerate.h) with values of each feature;
// of the legal ones, a spanning sample. Those among them that have every single value are first. Thread rule: one thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "athanor/config/config.h"

namespace athanor::tests {

struct SampledLayout {
  Config config;
  std::string text;
  bool is_first = false;  // of those that have every value once, without regard to pairs
};

struct SampledLayouts {
  std::vector<SampledLayout> rows;
  std::map<std::string, int64_t> excluded;  // candidates that are not in it, by reason
};

// `why_excluded`: the reason why a candidate is none; empty: it is one. `family`: llama, gpt2 (tied) or moe.
SampledLayouts sampled_layouts(const std::string& family,
                               const std::function<std::string(const Config&)>& why_excluded);

}  // namespace athanor::tests
