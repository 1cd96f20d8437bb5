// Progress of a command on standard error: on a terminal one line that is rewritten in place, elsewhere a
// plain line now and then.
//
//   ProgressLine line;
//   line.update("reading", bytes, total_bytes, "12 MiB of 40 MiB, 3 MiB/s");
//   line.clear();                       // before anything else is printed
#pragma once

#include <string>

#include "athanor/data/tokenize.h"

namespace athanor::apps {

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Prints at most a few times a second. A new `what` restarts the clock for the rate and the time left.
  void update(const std::string& what, double done, double total, const std::string& amount);
  void clear();
  double seconds() const;  // since `what` began

 private:
  bool terminal_, drawn_ = false;
  std::string what_;
  double start_ = 0, last_ = 0;
};

// Shows the progress of tokenizing, and one line when a path that took long is done.
TokenizeProgress show_tokenizing(ProgressLine& line, bool say_done = true);

}  // namespace athanor::apps
