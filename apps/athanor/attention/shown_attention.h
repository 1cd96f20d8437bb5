// The attention of a layer as `athanor attention show` tells it: figures, text, JSON and a picture.
//
//   const ShownAttention shown = look_at(pattern, {.length = 4096, .heads = 8, .head_size = 64});
//   print(attention_text(shown, {.columns = 80, .color = true}));
//   env.write_atomically("attention.svg", attention_svg(shown));
//
// Heads with the same terms are one group. Where they draw blocks at random each has its own, and the picture is of the first
// one. Thread rule: values and pure functions.
#pragma once

#include <string>
#include <vector>

#include "apps/command_line/print.h"
#include "athanor/masks/pattern.h"

namespace athanor::apps {

struct AttentionPlace {
  int64_t length = 0, layer = 0, heads = 1;
  int64_t head_size = 0;  // 0: not known, so no FLOPs
};

struct HeadGroup {
  std::string terms;
  std::vector<int64_t> heads;
  bool is_drawn = false;                                   // by random: another mask for each head
  int64_t rule = 0;                                        // of the first head
  int64_t pairs = 0, full_blocks = 0, partial_blocks = 0;  // of all its heads
};

struct ShownAttention {
  std::string pattern;
  AttentionPlace place;
  AttentionMask mask;
  std::vector<HeadGroup> groups;

  int64_t blocks() const { return mask.query_blocks() * mask.key_blocks(); }  // of a head
  // Of a forward pass over a sequence: two products of D multiplications and additions for each pair.
  double flops(int64_t pairs) const {
    return 4.0 * static_cast<double>(place.head_size) * static_cast<double>(pairs);
  }
};

ShownAttention look_at(const AttentionPattern& pattern, const AttentionPlace& place);

std::string heads_text(const HeadGroup& group);  // "heads 0-5", "head 3"
// "512,000 of 16,777,216 pairs a head (3.1 %), 6.1 % of the causal ones", and lines like that.
std::vector<std::string> figures_text(const ShownAttention& shown, const HeadGroup& group);

struct AttentionTextStyle {
  size_t columns = 80;
  bool color = false;
};
std::string attention_text(const ShownAttention& shown, const AttentionTextStyle& style);
Json attention_json(const ShownAttention& shown);
// One self-contained SVG, light or dark as the reader's system is.
std::string attention_svg(const ShownAttention& shown);

}  // namespace athanor::apps
