#include "verify_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/layout/enumerate.h"

namespace athanor::apps {
namespace {

// A summary of some of the layouts.
struct Part {
  int64_t layouts = 0, bitwise = 0, failed = 0, flips = 0;
  double loss = 0.0, grad_norm = 0.0, gradient = 0.0, weight = 0.0;

  // After a routing flip no bound holds: those layouts are counted, their differences are not.
  void add(const TriedLayout& tried) {
    const LayoutDifference& d = tried.difference;
    ++layouts;
    bitwise += d.bitwise ? 1 : 0;
    failed += tried.holds ? 0 : 1;
    flips += d.routing_flips > 0 ? 1 : 0;
    if (d.routing_flips > 0) return;
    loss = std::max(loss, d.loss.value);
    grad_norm = std::max(grad_norm, d.grad_norm.value);
    gradient = std::max(gradient, d.gradient.value);
    weight = std::max(weight, d.weight.value);
  }
  std::string row(const std::string& name) const {
    return fmt::format("| {} | {} | {} | {:.1e} | {:.1e} | {:.1e} | {:.1e} | {} | {} |\n", name, layouts,
                       bitwise, loss, grad_norm, gradient, weight, flips, failed);
  }
};

Part sum_of(const std::vector<TriedLayout>& tried) {
  Part all;
  for (const TriedLayout& each : tried) all.add(each);
  return all;
}

}  // namespace

std::string TriedLayout::verdict() const {
  if (!error.empty()) return "FAILED: " + error;
  if (difference.bitwise) return "bitwise equal";
  if (must_be_bitwise) return "NOT BITWISE EQUAL";
  if (!holds) return "DIFFERS";
  return difference.routing_flips > 0 ? fmt::format("{} routing flips", difference.routing_flips)
                                      : "equal within the tolerance";
}

Report TriedLayout::report() const {
  Report report;
  report["layout"] = layout.text();
  report["ranks"] = int64_t{ranks};
  const auto put = [&](const char* name, const Largest& largest) {
    report[name]["difference"] = largest.value;
    report[name]["where"] = largest.where;
  };
  put("loss", difference.loss);
  put("grad_norm", difference.grad_norm);
  put("gradient", difference.gradient);
  put("weight", difference.weight);
  report["routing_flips"] = difference.routing_flips;
  report["bitwise"] = difference.bitwise;
  report["must_be_bitwise"] = must_be_bitwise;
  report["holds"] = holds;
  if (!error.empty()) report["error"] = error;
  return report;
}

TriedLayout failed_layout(const Layout& layout, const std::string& error) {
  TriedLayout tried{.layout = layout, .ranks = layout.world_size(), .difference = {}, .error = error};
  tried.difference.bitwise = false;
  tried.must_be_bitwise = layout.keeps_order();
  return tried;
}

TriedLayout of_layout(TriedLayout tried, const Layout& layout) {
  tried.layout = layout;
  return tried;
}

int64_t LayoutTable::failed() const {
  return sum_of(tried).failed;
}

std::string LayoutTable::counts() const {
  const Part all = sum_of(tried);
  std::string text = fmt::format("{} legal layouts of up to {} ranks", legal, most_ranks);
  if (all.layouts < legal) text += fmt::format(", {} of them tried", all.layouts);
  text += fmt::format(": {} bitwise equal, {} within the tolerance, {} failed\n", all.bitwise,
                      all.layouts - all.bitwise - all.failed, all.failed);
  for (const auto& [reason, count] : refused) text += fmt::format("refused, {}: {}\n", count, reason);
  return text;
}

std::string LayoutTable::markdown() const {
  std::vector<std::vector<std::string>> names;  // of each axis, in the order of their first layouts
  std::map<std::string, Part> parts;
  for (const TriedLayout& each : tried) {
    const std::vector<std::string> values = axis_values(each.layout);
    names.resize(values.size());
    for (size_t axis = 0; axis < values.size(); ++axis) {
      if (!parts.contains(values[axis])) names[axis].push_back(values[axis]);
      parts[values[axis]].add(each);
    }
  }
  const Part all = sum_of(tried);
  std::string text = fmt::format(
      "| layouts with | tried | bitwise equal | loss | grad_norm | gradient | weight | with routing flips | "
      "failed "
      "|\n"
      "|---|---|---|---|---|---|---|---|---|\n{}",
      all.row(all.layouts < legal ? fmt::format("any of {}", legal) : "anything"));
  for (const auto& axis : names)
    for (const std::string& value : axis)
      if (axis.size() > 1) text += parts[value].row(value);
  text += "\n| refused | layouts |\n|---|---|\n";
  for (const auto& [reason, count] : refused) text += fmt::format("| {} | {} |\n", reason, count);
  return text;
}

Report LayoutTable::report() const {
  const Part all = sum_of(tried);
  Report report;
  for (const TriedLayout& each : tried) report["layouts"].push_back(each.report());
  report["legal"] = legal;
  report["tried"] = all.layouts;
  report["bitwise"] = all.bitwise;
  report["failed"] = all.failed;
  for (const auto& [reason, count] : refused) report["refused"][reason] = count;
  return report;
}

std::string table_header() {
  return "| layout | ranks | loss | grad_norm | gradient | weight | |\n|---|---|---|---|---|---|---|\n";
}

std::string row_of(const TriedLayout& tried) {
  const LayoutDifference& d = tried.difference;
  return fmt::format("| {} | {} | {:.1e} | {:.1e} | {:.1e} | {:.1e} | {} |\n", tried.layout.text(),
                     tried.ranks, d.loss.value, d.grad_norm.value, d.gradient.value, d.weight.value,
                     tried.verdict());
}

}  // namespace athanor::apps
