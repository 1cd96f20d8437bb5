// Metaspace: SentencePiece's way to write a space as a visible character, and to cut before it.
#include <string>

#include "athanor/text/pre_tokenizers/metaspace.h"
#include "athanor/text/pre_tokenizers/pattern.h"
#include "athanor/text/pre_tokenizers/pre_tokenizer.h"
#include "athanor/text/unicode.h"

namespace athanor::text::pre_tokenizers {
namespace {

class MetaspacePreTokenizer final : public PreTokenizer {
 public:
  MetaspacePreTokenizer(Metaspace options, bool split) : options_(options), split_(split) {
    append_utf8(mark_, options.replacement);
  }

  void split(Piece piece, const PieceSink& sink) const override {
    const bool prepends = options_.prepend == Metaspace::Prepend::always ||
                          (options_.prepend == Metaspace::Prepend::first && piece.at_start);
    NormalizedText marked(piece);
    Pattern(" ").replace_all(marked, mark_);
    if (prepends && !marked.text().starts_with(mark_))
      marked = with_prefix(mark_, marked.piece(piece.at_start));
    const Piece whole = marked.piece(piece.at_start);
    if (!split_) return sink(whole);
    std::vector<Stretch> stretches;
    size_t last_end = 0;
    Pattern(mark_).for_each_match(whole.text, [&](size_t begin, size_t end) {
      if (begin > last_end) stretches.push_back({last_end, begin, false});
      stretches.push_back({begin, end, true});
      last_end = end;
    });
    if (last_end < whole.text.size()) stretches.push_back({last_end, whole.text.size(), false});
    emit_stretches(whole, std::move(stretches), SplitBehavior::merged_with_next, sink);
  }

 private:
  Metaspace options_;
  bool split_;
  std::string mark_;
};

}  // namespace

Metaspace parse_metaspace(const JsonNode& node) {
  Metaspace options;
  if (const auto replacement = node.find("replacement")) options.replacement = replacement->character();
  if (const auto scheme = node.find("prepend_scheme")) {
    const std::string name = scheme->text();
    if (name == "never")
      options.prepend = Metaspace::Prepend::never;
    else if (name == "first")
      options.prepend = Metaspace::Prepend::first;
    else if (name != "always")
      scheme->fail("got '" + name + "', expected always, first or never");
  } else if (!node.boolean("add_prefix_space", true)) {  // files written before prepend_scheme existed
    options.prepend = Metaspace::Prepend::never;
  }
  return options;
}

std::unique_ptr<PreTokenizer> parse_metaspace_pre_tokenizer(const JsonNode& node) {
  return std::make_unique<MetaspacePreTokenizer>(parse_metaspace(node), node.boolean("split", true));
}

}  // namespace athanor::text::pre_tokenizers
