#include "athanor/text/pre_tokenizers/pre_tokenizer.h"

#include <algorithm>
#include <string>

namespace athanor::text::pre_tokenizers {
namespace {

class SequencePreTokenizer final : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(std::vector<std::unique_ptr<PreTokenizer>> steps)
      : steps_(std::move(steps)) {}

  void split(Piece piece, const PieceSink& sink) const override { run(0, piece, sink); }
  bool drop_final_byte_map() override { return !steps_.empty() && steps_.back()->drop_final_byte_map(); }
  bool maps_bytes() const override {
    return std::ranges::any_of(steps_, [](const auto& step) { return step->maps_bytes(); });
  }

 private:
  void run(size_t step, Piece piece, const PieceSink& sink) const {
    if (step == steps_.size()) return sink(piece);
    steps_[step]->split(piece, [&, step](Piece part) { run(step + 1, part, sink); });
  }

  std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

// One piece out of each run of stretches that `joins` holds together.
template <typename Joins>
std::vector<Stretch> join(const std::vector<Stretch>& stretches, Joins joins) {
  std::vector<Stretch> joined;
  for (size_t i = 0; i < stretches.size(); ++i) {
    if (i > 0 && joins(stretches[i - 1], stretches[i]))
      joined.back().end = stretches[i].end;
    else
      joined.push_back(stretches[i]);
  }
  return joined;
}

}  // namespace

void emit_stretches(Piece piece, std::vector<Stretch> stretches, SplitBehavior behavior,
                    const PieceSink& sink) {
  switch (behavior) {
    case SplitBehavior::isolated:
      break;
    case SplitBehavior::removed:
      std::erase_if(stretches, [](const Stretch& s) { return s.is_match; });
      break;
    case SplitBehavior::contiguous:
      stretches =
          join(stretches, [](const Stretch& a, const Stretch& b) { return a.is_match == b.is_match; });
      break;
    case SplitBehavior::merged_with_previous:
      stretches =
          join(stretches, [](const Stretch& a, const Stretch& b) { return b.is_match && !a.is_match; });
      break;
    case SplitBehavior::merged_with_next:
      stretches =
          join(stretches, [](const Stretch& a, const Stretch& b) { return a.is_match && !b.is_match; });
      break;
  }
  for (const Stretch& s : stretches)
    if (s.end > s.begin) sink(piece.part(s.begin, s.end));
}

SplitBehavior parse_split_behavior(const JsonNode& node) {
  const std::string name = node.text();
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  node.fail("got '" + name +
            "', expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

std::unique_ptr<PreTokenizer> parse_pre_tokenizer(const JsonNode& node) {
  const std::string type = node.at("type").text();
  if (type == "ByteLevel") return parse_byte_level_pre_tokenizer(node);
  if (type == "Split") return parse_split(node);
  if (type == "Metaspace") return parse_metaspace_pre_tokenizer(node);
  if (type == "FixedLength") return parse_fixed_length(node);
  if (type == "UnicodeScripts") return make_unicode_scripts();
  if (auto split = parse_class_split(node)) return split;
  if (type != "Sequence")
    node.at("type").fail(
        "got '" + type +
        "', expected ByteLevel, Split, Metaspace, Digits, Punctuation, Whitespace, "
        "WhitespaceSplit, CharDelimiterSplit, BertPreTokenizer, FixedLength, UnicodeScripts or Sequence");
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  for (const JsonNode& step : node.at("pretokenizers").items()) steps.push_back(parse_pre_tokenizer(step));
  return std::make_unique<SequencePreTokenizer>(std::move(steps));
}

}  // namespace athanor::text::pre_tokenizers
