// Standard output or error as a long run writes to it: whoever reads it may go away (`| head`, a closed ssh session, a
// dead log collector), and that must not end the run.
//
//   auto out = std::make_shared<ConsoleStream>(STDOUT_FILENO);
//   out->write("step 1\n");
//   if (out->is_lost()) ...          // nobody reads any more: what is written from now on is dropped
//
// The program ignores SIGPIPE. A text goes out as a whole or, where the disk behind it is full, not at all or in part; the
// next one is tried again. Thread rule: any thread.
#pragma once

#include <mutex>
#include <string_view>

namespace athanor {

class ConsoleStream {
 public:
  explicit ConsoleStream(int fd) : fd_(fd) {}

  void write(std::string_view text);
  bool is_lost() const;
  int error() const;  // errno of the latest write that failed; 0: none has

 private:
  const int fd_;
  mutable std::mutex mutex_;
  int error_ = 0;
};

}  // namespace athanor
