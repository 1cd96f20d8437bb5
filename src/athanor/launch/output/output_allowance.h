// How much of what a rank writes is shown: a burst, and then so many bytes a second. A line counts for kLineBytes more, so
// that millions of empty ones are bounded, too.
//
//   OutputAllowance allowance;
//   if (allowance.take(bytes, now)) show(bytes); else num_dropped += bytes.size();
//
// Thread rule: one thread. No clock: time is passed in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::launch::output {

class OutputAllowance {
 public:
  static constexpr int64_t kBurstBytes = 1 << 20, kBytesASecond = 256 << 10, kLineBytes = 64;

  // false: it is too much now, and nothing is taken.
  bool take(std::string_view bytes, int64_t now_ns) {
    const int64_t cost = std::ssize(bytes) + kLineBytes * std::count(bytes.begin(), bytes.end(), '\n');
    if (cost > left(now_ns)) return false;
    left_ -= cost;
    return true;
  }
  // Bytes that can be taken now, unless they have lines.
  int64_t left(int64_t now_ns) {
    const int64_t passed_ns = std::min<int64_t>(std::max<int64_t>(now_ns - filled_ns_, 0), kFullNs);
    const int64_t more = passed_ns * kBytesASecond / 1'000'000'000;
    if (more > 0) {  // else less than a byte, which is not to be lost
      left_ = std::min(left_ + more, kBurstBytes);
      filled_ns_ = now_ns;
    }
    return left_;
  }

 private:
  static constexpr int64_t kFullNs = kBurstBytes / kBytesASecond * 1'000'000'000;
  int64_t left_ = kBurstBytes, filled_ns_ = 0;
};

}  // namespace athanor::launch::output
