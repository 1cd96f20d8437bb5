#include "athanor/text/normalizers/normalizer.h"

#include <algorithm>
#include <vector>

#include "athanor/text/byte_level.h"
#include "athanor/text/pre_tokenizers/pattern.h"
#include "athanor/text/unicode.h"

namespace athanor::text::normalizers {
namespace {

class SequenceNormalizer final : public Normalizer {
 public:
  explicit SequenceNormalizer(std::vector<std::unique_ptr<Normalizer>> steps) : steps_(std::move(steps)) {}
  void apply(NormalizedText& text) const override {
    for (const auto& step : steps_) step->apply(text);
  }
  bool maps_bytes() const override {
    return std::ranges::any_of(steps_, [](const auto& step) { return step->maps_bytes(); });
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

class ReplaceNormalizer final : public Normalizer {
 public:
  ReplaceNormalizer(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(NormalizedText& text) const override { pattern_.replace_all(text, content_); }

 private:
  Pattern pattern_;
  std::string content_;
};

class PrependNormalizer final : public Normalizer {
 public:
  explicit PrependNormalizer(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(NormalizedText& text) const override { text = with_prefix(prefix_, text.piece(true)); }

 private:
  std::string prefix_;
};

class StripNormalizer final : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}
  void apply(NormalizedText& text) const override {
    const std::string& all = text.text();
    size_t begin = all.size(), end = 0;  // of what is not white space
    for (size_t at = 0; at < all.size();) {
      const CodePoint c = decode_utf8(all, at);
      if (!is_space(c.value)) {
        begin = std::min(begin, at);
        end = at + c.size;
      }
      at += c.size;
    }
    if (!left_) begin = 0;
    if (!right_) end = all.size();
    const size_t size = all.size();
    Rewriter rewriter(text);
    rewriter.drop(std::min(begin, size));
    if (end > begin) rewriter.keep(end - begin);
    rewriter.drop(size - std::max(begin, end));
    rewriter.finish();
  }

 private:
  bool left_, right_;
};

class ByteLevelNormalizer final : public Normalizer {
 public:
  void apply(NormalizedText& text) const override { bytes_to_chars(text); }
  bool maps_bytes() const override { return true; }
};

}  // namespace

std::string Normalizer::applied(std::string_view text) const {
  NormalizedText normalized({.text = text, .at_start = true});
  apply(normalized);
  return normalized.text();
}

std::unique_ptr<Normalizer> parse_normalizer(const JsonNode& node) {
  const std::string type = node.at("type").text();
  if (auto unicode = parse_unicode_normalizer(node)) return unicode;
  if (type == "Replace")
    return std::make_unique<ReplaceNormalizer>(parse_pattern(node.at("pattern")), node.at("content").text());
  if (type == "Prepend") return std::make_unique<PrependNormalizer>(node.at("prepend").text());
  if (type == "Strip")
    return std::make_unique<StripNormalizer>(node.boolean("strip_left", true),
                                             node.boolean("strip_right", true));
  if (type == "ByteLevel") return std::make_unique<ByteLevelNormalizer>();
  if (type == "BertNormalizer") return parse_bert_normalizer(node);
  if (type == "Nmt") return make_nmt_normalizer();
  if (type == "Precompiled") return parse_precompiled_normalizer(node);
  if (type != "Sequence")
    node.at("type").fail(
        "got '" + type +
        "', expected NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Replace, Prepend, Strip, "
        "ByteLevel, BertNormalizer, Nmt, Precompiled or Sequence");
  std::vector<std::unique_ptr<Normalizer>> steps;
  for (const JsonNode& step : node.at("normalizers").items()) steps.push_back(parse_normalizer(step));
  return std::make_unique<SequenceNormalizer>(std::move(steps));
}

}  // namespace athanor::text::normalizers
