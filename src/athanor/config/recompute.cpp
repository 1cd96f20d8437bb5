#include "athanor/config/recompute.h"

#include <charconv>

namespace athanor::config {
namespace {

constexpr std::string_view kGroup = "group:";
constexpr int64_t kMaxBlocks = 1 << 20;

std::optional<int64_t> parse_count(std::string_view text) {
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 1 || count > kMaxBlocks)
    return std::nullopt;
  return count;
}

std::optional<RecomputePart> parse_part(std::string_view text) {
  RecomputePart part;
  if (const size_t star = text.find('*'); star != std::string_view::npos) {
    const auto blocks = parse_count(text.substr(star + 1));
    if (!blocks) return std::nullopt;
    part.blocks = *blocks;
    text = text.substr(0, star);
  }
  if (text == "none") return part;
  if (text == "selective") {
    part.policy = Recompute::selective;
    return part;
  }
  part.policy = Recompute::full;
  if (text == "full") return part;
  if (!text.starts_with(kGroup)) return std::nullopt;
  const auto group = parse_count(text.substr(kGroup.size()));
  if (!group) return std::nullopt;
  part.group = *group;
  return part;
}

}  // namespace

std::optional<RecomputePlan> parse_recompute(std::string_view text) {
  RecomputePlan plan;
  while (true) {
    const size_t comma = text.find(',');
    const auto part = parse_part(text.substr(0, comma));
    if (!part || (part->blocks == 0 && comma != std::string_view::npos)) return std::nullopt;
    plan.push_back(*part);
    if (comma == std::string_view::npos) return plan;
    text.remove_prefix(comma + 1);
  }
}

std::string str(const RecomputePlan& plan) {
  std::string text;
  for (const RecomputePart& part : plan) {
    if (!text.empty()) text += ',';
    text += part.policy == Recompute::none        ? "none"
            : part.policy == Recompute::selective ? "selective"
            : part.group == 1                     ? "full"
                                                  : std::string(kGroup) + std::to_string(part.group);
    if (part.blocks > 0) text += '*' + std::to_string(part.blocks);
  }
  return text.empty() ? "none" : text;
}

}  // namespace athanor::config
