// Lines of several ranks, held for a moment so that equal ones become one.
//
//   HeldLines held;
//   held.add(1, "warning: slow disk", now);
//   held.add(3, "warning: slow disk", now);
//   held.take(now, [&](const HeldLines::Line& line) { show(line.ranks, *line.text); });   // once, of the ranks 1 and 3
//
// What one rank wrote twice is two lines. The time that a line takes does not depend on how many are held. Thread rule: one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::launch::output {

class HeldLines {
 public:
  struct Line {
    const std::string* text;
    std::vector<int> ranks;
    int64_t since_ns;
  };

  void add(int rank, std::string line, int64_t now_ns);
  // Those that are held since `until_ns` or longer, the oldest first; `use` must not add.
  void take(int64_t until_ns, const std::function<void(const Line& line)>& use);
  bool is_empty() const { return lines_.empty(); }
  void clear();

 private:
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();
  // Lines of one text, by their numbers. A rank joins the first that it has not joined.
  struct Same {
    size_t first, last;
    std::map<int, size_t> joined{};  // by rank: the newest
  };
  struct Held {
    Line line;
    size_t next_same = kNone;
  };
  Held& held(size_t number) { return lines_[number - num_gone_]; }

  std::unordered_map<std::string, Same> texts_;
  std::deque<Held> lines_;
  size_t num_gone_ = 0;  // the number of the first line
};

}  // namespace athanor::launch::output
