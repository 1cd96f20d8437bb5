// An output that may fail without ending the run. The first failure is reported; dropped records are counted.
//
//   SideOutput lines("metrics.jsonl", [&](const std::string& text) { console.warning(text); });
//   lines.attempt([&] { writer.write(metrics); });      // false if it failed: one record is dropped
//   lines.attempt([&] { writer.sync(); }, /*lost=*/0);  // a failure drops no record
//   lines.dropped();
//
// Reported are the first failure and, once, that writing works again and how many records were dropped meanwhile. The
// caller reports dropped() at the end. attempt() swallows a Recoverable (a full disk, a quota, a limit); other
// exceptions pass. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "athanor/base/namespaces.h"

namespace athanor::observe {

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

}  // namespace athanor::observe
