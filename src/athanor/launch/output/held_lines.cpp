#include "athanor/launch/output/held_lines.h"

#include <utility>

namespace athanor::launch::output {

void HeldLines::add(int rank, std::string line, int64_t now_ns) {
  const size_t number = num_gone_ + lines_.size();
  const auto [found, is_new] = texts_.try_emplace(std::move(line), Same{number, number});
  Same& same = found->second;
  if (!is_new) {
    const auto joined = same.joined.find(rank);
    const bool is_behind = joined == same.joined.end() || joined->second < same.first;
    const size_t next = is_behind ? same.first : held(joined->second).next_same;
    same.joined[rank] = next == kNone ? number : next;
    if (next != kNone) {
      held(next).line.ranks.push_back(rank);
      return;
    }
    held(same.last).next_same = number;
    same.last = number;
  }
  same.joined[rank] = number;
  lines_.push_back({{&found->first, {rank}, now_ns}});
}

void HeldLines::take(int64_t until_ns, const std::function<void(const Line& line)>& use) {
  while (!lines_.empty() && lines_.front().line.since_ns <= until_ns) {
    use(lines_.front().line);
    const auto found = texts_.find(*lines_.front().line.text);
    if (lines_.front().next_same == kNone)
      texts_.erase(found);
    else
      found->second.first = lines_.front().next_same;
    lines_.pop_front();
    ++num_gone_;
  }
}

void HeldLines::clear() {
  num_gone_ += lines_.size();
  lines_.clear();
  texts_.clear();
}

}  // namespace athanor::launch::output
