// Cuts a stream of bytes into lines, in bounded memory: a line above kLineBytes comes in pieces of that length.
//
//   LineCutter cutter;
//   cutter.add(bytes, [&](std::string line) { show(line); });
//   cutter.end([&](std::string line) { show(line); });            // an unfinished last line counts as one
//
// A carriage return takes back what stands before it in the line, as on a terminal, unless the line ends there. Thread rule:
// one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "athanor/base/namespaces.h"

namespace athanor::launch::output {

class LineCutter {
 public:
  static constexpr size_t kLineBytes = 8192;
  using Take = std::function<void(std::string line)>;

  void add(std::string_view bytes, const Take& take);
  void end(const Take& take);

 private:
  std::string line_;
  bool has_returned_ = false;
};

}  // namespace athanor::launch::output
