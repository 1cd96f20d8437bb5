#include "athanor/base/meter.h"

#include <algorithm>

#include "athanor/base/clock.h"

namespace athanor::base {

void Meter::add(const char* kernel, std::string shape, Cost cost, int64_t start_ns, int64_t end_ns) {
  if (trace_ != nullptr)
    trace_->add(shape.empty() ? kernel : std::string(kernel) + " " + shape, "kernel", start_ns, end_ns);
  Line& line = lines_[{kernel, shape}];
  line.kernel = kernel;
  line.shape = std::move(shape);
  ++line.calls;
  line.seconds += static_cast<double>(end_ns - start_ns) * 1e-9;
  line.cost.flops += cost.flops;
  line.cost.bytes += cost.bytes;
  last_[kernel] = &line;
  last_end_ns_ = end_ns;
}

void Meter::extend(const char* kernel, int64_t end_ns) {
  const auto last = last_.find(kernel);
  if (last != last_.end()) last->second->seconds += static_cast<double>(end_ns - last_end_ns_) * 1e-9;
  if (trace_ != nullptr) trace_->add(std::string(kernel) + " on the device", "kernel", last_end_ns_, end_ns);
  last_end_ns_ = end_ns;
}

std::vector<Meter::Line> Meter::lines() const {
  std::vector<Line> lines;
  for (const auto& [key, line] : lines_) lines.push_back(line);
  std::stable_sort(lines.begin(), lines.end(),
                   [](const Line& a, const Line& b) { return a.seconds > b.seconds; });
  return lines;
}

Meter::Call::Call(Meter* meter, const char* kernel, Cost cost, std::string shape)
    : meter_(meter),
      kernel_(kernel),
      cost_(cost),
      shape_(std::move(shape)),
      start_ns_(meter != nullptr ? now_ns() : 0) {}

Meter::Call::~Call() {
  if (meter_ != nullptr) meter_->add(kernel_, std::move(shape_), cost_, start_ns_, now_ns());
}

}  // namespace athanor::base
