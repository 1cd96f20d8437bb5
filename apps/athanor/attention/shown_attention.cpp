#include "apps/athanor/attention/shown_attention.h"

#include <fmt/core.h>

#include <algorithm>

#include "athanor/base/human.h"

namespace athanor::apps {
namespace {

double share(int64_t part, double whole) {
  return whole > 0 ? static_cast<double>(part) / whole : 0.0;
}

// All pairs, and all causal ones, of a head.
double all_pairs(const ShownAttention& shown) {
  return static_cast<double>(shown.place.length) * static_cast<double>(shown.place.length);
}
double causal_pairs(const ShownAttention& shown) {
  return static_cast<double>(shown.place.length) * static_cast<double>(shown.place.length + 1) / 2;
}

std::string per_cent(double share) {
  return fmt::format("{:.{}f} %", 100 * share, share < 0.0995 ? 2 : 1);
}

std::string flops_text(double flops) {
  static constexpr const char* kUnits[] = {"", "K", "M", "G", "T", "P"};
  size_t unit = 0;
  for (; flops >= 999.5 && unit + 1 < std::size(kUnits); flops /= 1000) ++unit;
  return fmt::format("{:.3g} {}FLOP", flops, kUnits[unit]);
}

}  // namespace

ShownAttention look_at(const AttentionPattern& pattern, const AttentionPlace& place) {
  const int64_t n = place.length;
  ShownAttention shown{
      .pattern = pattern.text(),
      .place = place,
      .mask = mask_of(pattern, {.positions = {{{0, n}}, {{0, n}}}, .length = n, .heads = place.heads},
                      place.layer),
      .groups = {}};
  for (int64_t head = 0; head < place.heads; ++head) {
    const PatternSection& section = pattern.section_of(place.layer, head);
    auto group = std::find_if(shown.groups.begin(), shown.groups.end(),
                              [&](const HeadGroup& each) { return each.terms == section.terms_text; });
    const int64_t rule = shown.mask.rule_of(head);
    if (group == shown.groups.end())
      group = shown.groups.insert(shown.groups.end(), {.terms = section.terms_text,
                                                       .heads = {},
                                                       .is_drawn = section.find(kinds::kRandom) != nullptr,
                                                       .rule = rule});
    group->heads.push_back(head);
    const AttentionMask::Figures& figures = shown.mask.figures(rule);
    group->pairs += figures.pairs;
    group->full_blocks += figures.full_blocks;
    group->partial_blocks += figures.partial_blocks;
  }
  return shown;
}

std::string heads_text(const HeadGroup& group) {
  IndexSet set;
  for (const int64_t head : group.heads)
    if (set.ranges.empty() || set.ranges.back().last + 1 < head)
      set.ranges.push_back({head, head});
    else
      set.ranges.back().last = head;
  return (group.heads.size() == 1 ? "head " : "heads ") + set.text();
}

std::vector<std::string> figures_text(const ShownAttention& shown, const HeadGroup& group) {
  const auto heads = static_cast<int64_t>(group.heads.size());
  const auto count = static_cast<double>(heads);
  std::vector<std::string> lines = {
      fmt::format("{}{} pairs: {} of all {}, {} of causal attention's", heads > 1 ? "a head sees " : "",
                  with_commas(group.pairs / heads), per_cent(share(group.pairs, count * all_pairs(shown))),
                  with_commas(shown.place.length * shown.place.length),
                  per_cent(share(group.pairs, count * causal_pairs(shown)))),
      fmt::format("{} blocks of 64 x 64 in full and {} in part, of {} ({})",
                  with_commas(group.full_blocks / heads), with_commas(group.partial_blocks / heads),
                  with_commas(shown.blocks()),
                  per_cent(share(group.full_blocks + group.partial_blocks,
                                 count * static_cast<double>(shown.blocks()))))};
  if (group.is_drawn && heads > 1)
    lines.push_back(
        fmt::format("each head draws its own blocks: these are means, drawn is head {}", group.heads[0]));
  if (shown.place.head_size > 0)
    lines.push_back(fmt::format("{} forward, of {} of size {}", flops_text(shown.flops(group.pairs)),
                                heads_text(group), shown.place.head_size));
  return lines;
}

Json attention_json(const ShownAttention& shown) {
  Json document;
  document["pattern"] = shown.pattern;
  document["length"] = shown.place.length;
  document["layer"] = shown.place.layer;
  document["heads"] = shown.place.heads;
  document["head_size"] = shown.place.head_size > 0 ? Json(shown.place.head_size) : Json();
  document["mask_bytes"] = shown.mask.bytes();
  document["pairs"] = shown.mask.pairs_of_all_heads();
  document["flops"] = shown.place.head_size > 0 ? Json(shown.flops(shown.mask.pairs_of_all_heads())) : Json();
  document["groups"] = Json::array();
  for (const HeadGroup& group : shown.groups) {
    const auto heads = static_cast<double>(group.heads.size());
    Json each;
    each["pattern"] = group.terms;
    each["heads"] = group.heads;
    each["pairs"] = group.pairs;
    each["share"] = share(group.pairs, heads * all_pairs(shown));
    each["share_of_causal"] = share(group.pairs, heads * causal_pairs(shown));
    each["full_blocks"] = group.full_blocks;
    each["partial_blocks"] = group.partial_blocks;
    each["block_share"] =
        share(group.full_blocks + group.partial_blocks, heads * static_cast<double>(shown.blocks()));
    each["flops"] = shown.place.head_size > 0 ? Json(shown.flops(group.pairs)) : Json();
    document["groups"].push_back(each);
  }
  return document;
}

}  // namespace athanor::apps
