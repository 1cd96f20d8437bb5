// What the ranks write to their standard errors, made into one stream: rank 0 as it comes, the lines of
// others marked with their rank, equal lines once.
//
// A line of rank 1 ... is held for a moment, in which the same line of other ranks joins it; if rank 0 wrote
// it too it is dropped. Time is passed in, in nanoseconds. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

class RankOutput {
 public:
  RankOutput(int num_ranks, std::function<void(std::string_view)> write);

  void add(int rank, std::string_view bytes, int64_t now_ns);
  void end_of(int rank, int64_t now_ns);  // an unfinished last line counts as one
  // Writes what has been held long enough; all of it with `everything`.
  void flush(int64_t now_ns, bool everything = false);
  void drop_held() { held_.clear(); }
  bool holds() const { return !held_.empty(); }

  // The end of what a rank wrote: its last "athanor: error: " line without that prefix and the hint below it;
  // without such a line its last few lines. Empty for a rank that wrote nothing here.
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

}  // namespace athanor
