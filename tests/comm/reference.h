// What the collectives must give, computed serially.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "athanor/base/shared_memory.h"
#include "athanor/comm/group.h"
#include "athanor/comm/options.h"
#include "athanor/comm/tree.h"
#include "athanor/tensor/dtype.h"

namespace athanor::tests {

// That a collective of more than a few elements fills several times.
inline GroupOptions small_slots() {
  GroupOptions options;
  options.slot_bytes = 1024;
  options.timeout_ms = 600'000;
  return options;
}

// What can be added, and what can be moved.
using SumTypes = ::testing::Types<float, double, Bf16, int64_t>;
using AllTypes = ::testing::Types<float, double, Bf16, int64_t, uint8_t, int32_t>;

// Values of very different size, so that a sum in another order has other bits.
template <typename T>
T sample(int rank, int64_t i) {
  const double value = std::sin(static_cast<double>(rank * 1000 + i + 1)) * ((rank + i) % 3 == 0 ? 1e6 : 1.0);
  if constexpr (std::is_same_v<T, Bf16>) {
    return from_float<Bf16>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return static_cast<int64_t>(value * 1e12);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<int64_t>(value));  // the lowest bits of it
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
std::vector<T> samples(int rank, int64_t first, int64_t count) {
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(sample<T>(rank, first + i));
  return values;
}

template <typename T>
T serial_sum(int ranks, int64_t i) {
  if constexpr (std::is_same_v<T, Bf16>) {
    float sum = to_float(sample<T>(0, i));
    for (int r = 1; r < ranks; ++r) sum += to_float(sample<T>(r, i));
    return from_float<Bf16>(sum);
  } else {
    T sum = sample<T>(0, i);
    for (int r = 1; r < ranks; ++r) sum += sample<T>(r, i);
    return sum;
  }
}

template <typename T>
std::vector<T> serial_sums(int ranks, int64_t first, int64_t count) {
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(serial_sum<T>(ranks, first + i));
  return values;
}

// What all_to_all gives rank `me` when rank r brings samples<T>(r, 0, ranks * count).
template <typename T>
std::vector<T> rows_for(int me, int ranks, int64_t count) {
  std::vector<T> rows;
  for (int r = 0; r < ranks; ++r) {
    const auto row = samples<T>(r, me * count, count);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

inline float leaf(int64_t micro_batch, int64_t i) {
  return std::sin(static_cast<float>(micro_batch * 37 + i + 1)) * (micro_batch % 3 == 0 ? 1e5f : 1.0f);
}

inline std::vector<float> node_sum(const LeafRange& range, int64_t num_leaves, int64_t count) {
  std::vector<LeafRange> leaves;
  std::vector<std::vector<float>> values;
  // A node's own tree: its leaves are those of a smaller tree, since a node starts at a multiple of its
  // length.
  for (int64_t g = range.first; g < range.second; ++g) {
    leaves.emplace_back(g - range.first, g - range.first + 1);
    values.emplace_back();
    for (int64_t i = 0; i < count; ++i) values.back().push_back(leaf(g, i));
  }
  EXPECT_LE(range.second, num_leaves);
  for (const auto& add : plan_tree_sum(leaves, range.second - range.first))
    for (size_t i = 0; i < static_cast<size_t>(count); ++i)
      values[static_cast<size_t>(add.into)][i] += values[static_cast<size_t>(add.from)][i];
  return values[0];
}

// Memory of a rank that is a thread, shared with the others.
inline std::shared_ptr<std::byte> share_bytes(Group& group, size_t size_bytes) {
  auto memory = map_shared_memory(size_bytes);
  group.share(memory, size_bytes, "memory");
  return memory;
}

}  // namespace athanor::tests
