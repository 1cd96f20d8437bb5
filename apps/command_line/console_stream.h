// Standard output or error of a long run. Its reader may go away (`| head`, a closed ssh session, a dead log collector)
// without ending the run.
//
//   auto out = std::make_shared<ConsoleStream>(STDOUT_FILENO);
//   out->write("step 1\n");
//   if (out->is_lost()) ...          // nobody reads any more: what is written from now on is dropped
//
// The program must ignore SIGPIPE. If the disk behind the stream is full, a text is lost or cut short, and the next
// text is tried again. Thread rule: any thread.
#pragma once

#include <mutex>
#include <string_view>

namespace athanor::apps {

class ConsoleStream {
 public:
  explicit ConsoleStream(int fd) : fd_(fd) {}

  void write(std::string_view text);
  bool is_lost() const;
  int error() const;  // errno of the latest write that failed; 0: no write has failed

 private:
  const int fd_;
  mutable std::mutex mutex_;
  int error_ = 0;
};

}  // namespace athanor::apps
