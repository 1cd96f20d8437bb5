// Spans of time for a Chrome/Perfetto trace.
//
//   Trace trace;                       // one per rank; recording costs two clock reads a span
//   { Span span(&trace, "backward", "step"); work(); }
//   write(trace.chrome_json(rank));
//
// With a null Trace* a Span costs nothing, so code can always open one. Thread rule: spans from any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::base {

struct TraceEvent {
  std::string name, category;
  int64_t start_ns = 0, duration_ns = 0;
  int thread = 0;
};

class Trace {
 public:
  void add(TraceEvent event);
  void add(const std::string& name, const std::string& category, int64_t start_ns,
           int64_t end_ns);  // this thread
  std::vector<TraceEvent> events() const;
  void stop();  // later spans are not recorded
  bool stopped() const;
  std::string chrome_json(int rank) const;  // {"traceEvents":[...],"displayTimeUnit":"ms"}

 private:
  mutable std::mutex mutex_;
  std::vector<TraceEvent> events_;
  bool stopped_ = false;
};

class Span {
 public:
  Span(Trace* trace, const char* name, const char* category);
  ~Span();
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  Trace* trace_;
  const char* name_;
  const char* category_;
  int64_t start_ns_;
};

}  // namespace athanor::base
