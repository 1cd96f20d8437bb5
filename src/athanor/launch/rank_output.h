// Merges the standard error streams of the ranks into one: rank 0's bytes as they come, lines of other ranks marked
// with their rank, equal lines only once.
//
//   RankOutput output(num_ranks, write);
//   output.add(rank, bytes, now_ns());
//   output.flush(now_ns());
//
// A line of rank 1, 2, ... is held for a moment; the same line of other ranks joins it. It is dropped if rank 0 wrote
// it, too. Time is passed in, in nanoseconds. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::launch {

class RankOutput {
 public:
  RankOutput(int num_ranks, std::function<void(std::string_view)> write);

  void add(int rank, std::string_view bytes, int64_t now_ns);
  void end_of(int rank, int64_t now_ns);  // an unfinished last line counts as one
  void begin(
      int rank,
      int64_t now_ns);  // a new process, maybe of a rank that there was not: without earlier last words
  // Writes the lines that have been held long enough; with `everything` all held lines.
  void flush(int64_t now_ns, bool everything = false);
  void drop_held() { held_.clear(); }
  bool holds() const { return !held_.empty(); }

  // The end of a rank's output: its last "athanor: error: " line without the prefix, and the hint below it. If there is
  // no such line, its last few lines. Empty for a rank that wrote nothing.
  struct LastWords {
    std::string error, hint;
    std::vector<std::string> lines;
  };
  LastWords last_words(int rank) const;

 private:
  struct Held {
    std::string line;
    std::vector<int> ranks;
    int64_t since_ns;
  };
  void add_line(int rank, std::string line, int64_t now_ns);

  std::function<void(std::string_view)> write_;
  std::vector<std::string> unfinished_;
  std::vector<std::deque<std::string>> latest_;  // per rank
  std::deque<Held> held_;
};

}  // namespace athanor::launch
