// Merges the standard error streams of the ranks into one: rank 0's bytes as they come, lines of other ranks marked
// with their rank, equal lines only once.
//
//   RankOutput output(num_ranks, write);
//   output.add(rank, bytes, now_ns());
//   output.flush(now_ns());
//   write_file(output.tail(rank));                    // the last kTailBytes of it, shown or not
//
// A line of rank 1, 2, ... is held for a moment; the same line of other ranks joins it. It is dropped if rank 0 wrote
// it, too. A rank that writes more than is of use to a reader (output_allowance.h) is cut off: what is left out is counted and
// said, and costs no more than a copy of what is kept. Time is passed in, in nanoseconds. Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "athanor/base/namespaces.h"
#include "athanor/launch/output/held_lines.h"
#include "athanor/launch/output/line_cutter.h"
#include "athanor/launch/output/log_tail.h"
#include "athanor/launch/output/output_allowance.h"

namespace athanor::launch::output {

constexpr size_t kTailBytes = 64 << 10;

class RankOutput {
 public:
  RankOutput(int num_ranks, std::function<void(std::string_view)> write);

  void add(int rank, std::string_view bytes, int64_t now_ns);
  // Of `size_bytes` that wait to be added, how many of the first need not be: neither shown nor kept. They count as left out.
  size_t leave_out_of(int rank, size_t size_bytes, int64_t now_ns);
  void end_of(int rank, int64_t now_ns);  // an unfinished last line counts as one
  // A new process, maybe of a rank that there was not: without earlier last words.
  void begin(int rank, int64_t now_ns);
  // Writes the lines that have been held long enough, and what was left out; with `everything` all held lines.
  void flush(int64_t now_ns, bool everything = false);
  void drop_held() { held_.clear(); }
  // Drops the held lines of all ranks but this one, and counts them.
  int drop_held_but_of(int rank);
  bool holds() const { return !held_.is_empty() || num_cut_off_ > 0; }

  // The end of a rank's output: its last "athanor: error: " line without the prefix, and the hint below it; its last few
  // lines, without those. Empty for a rank that wrote nothing.
  struct LastWords {
    std::string error, hint;
    std::vector<std::string> lines;
  };
  LastWords last_words(int rank) const;
  std::string tail(int rank) const;
  int num_ranks() const { return static_cast<int>(ranks_.size()); }

 private:
  struct Rank {
    LineCutter lines{};
    LogTail tail{kTailBytes};
    OutputAllowance allowance{};
    uint64_t bytes_left_out = 0;  // which nobody has been told of
    int64_t tell_at_ns = 0;       // that they were
    bool cut_off = false;         // until its next line begins
    bool in_line = false;         // of rank 0: what was written last does not end a line
  };
  void show(int rank, std::string_view bytes, int64_t now_ns);
  void leave_out(int rank, size_t size_bytes, int64_t now_ns);
  void tell_left_out(int rank);
  void add_line(int rank, std::string line, int64_t now_ns);
  void remember(const std::string& line);

  std::function<void(std::string_view)> write_;
  std::vector<Rank> ranks_;
  HeldLines held_;
  std::deque<size_t> latest_;               // hashes of rank 0's
  std::unordered_map<size_t, int> counts_;  // the same
  int num_cut_off_ = 0;                     // ranks with something left out
};

}  // namespace athanor::launch::output
