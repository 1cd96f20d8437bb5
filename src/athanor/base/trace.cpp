#include "athanor/base/trace.h"

#include <fmt/format.h>

#include <atomic>
#include <map>

#include "athanor/base/clock.h"

namespace athanor::base {
namespace {
int this_thread_number() {
  static std::atomic<int> next{0};  // numbers for display only
  thread_local const int number = next.fetch_add(1);
  return number;
}
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}
}  // namespace

void Trace::add(TraceEvent event) {
  const std::lock_guard lock(mutex_);
  if (!stopped_) events_.push_back(std::move(event));
}

void Trace::add(const std::string& name, const std::string& category, int64_t start_ns, int64_t end_ns) {
  add({name, category, start_ns, end_ns - start_ns, this_thread_number()});
}

std::vector<TraceEvent> Trace::events() const {
  const std::lock_guard lock(mutex_);
  return events_;
}

void Trace::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
}

bool Trace::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

std::string Trace::chrome_json(int rank) const {
  std::string out = fmt::format(
      R"({{"displayTimeUnit":"ms","traceEvents":[{{"ph":"M","name":"process_name","pid":{},"args":{{"name":"rank {}"}}}})",
      rank, rank);
  std::map<int, std::string> threads;  // by what the first of their spans is about
  for (const auto& event : events())
    threads.emplace(event.thread, event.category == "comm" ? "communication" : "training");
  for (const auto& [thread, name] : threads)
    out += fmt::format(
        ",\n"
        R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})",
        rank, thread, escaped(name));
  for (const auto& event : events())
    out += fmt::format(
        ",\n"
        R"({{"ph":"X","name":"{}","cat":"{}","ts":{:.3f},"dur":{:.3f},"pid":{},"tid":{}}})",
        escaped(event.name), escaped(event.category), static_cast<double>(event.start_ns) * 1e-3,
        static_cast<double>(event.duration_ns) * 1e-3, rank, event.thread);
  return out + "]}\n";
}

Span::Span(Trace* trace, const char* name, const char* category)
    : trace_(trace), name_(name), category_(category), start_ns_(trace != nullptr ? now_ns() : 0) {}

Span::~Span() {
  if (trace_ != nullptr) trace_->add(name_, category_, start_ns_, now_ns());
}

}  // namespace athanor::base
