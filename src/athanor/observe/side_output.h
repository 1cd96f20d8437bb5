// What tells of a run must not end it: an output that may fail. The first failure is said, what follows is counted.
//
//   SideOutput lines("metrics.jsonl", [&](const std::string& text) { console.warning(text); });
//   lines.attempt([&] { writer.write(metrics); });      // false where it failed: that one is dropped
//   lines.attempt([&] { writer.sync(); }, /*lost=*/0);  // its failure drops nothing
//   lines.dropped();
//
// Said are the first failure and, once, that it works again and how many were dropped meanwhile; the caller says the sum at
// the end. Errors of attempt(): none for a Recoverable (a full disk, a quota, a limit); all others pass. Thread rule: one
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace athanor {

class SideOutput {
 public:
  using Say = std::function<void(const std::string& text)>;
  SideOutput(std::string name, Say warn) : name_(std::move(name)), warn_(std::move(warn)) {}

  bool attempt(const std::function<void()>& write, int64_t lost = 1);
  const std::string& name() const { return name_; }
  int64_t dropped() const { return dropped_; }

 private:
  std::string name_;
  Say warn_;
  int64_t dropped_ = 0;
  bool failing_ = false, said_failing_ = false, said_working_ = false;
};

}  // namespace athanor
