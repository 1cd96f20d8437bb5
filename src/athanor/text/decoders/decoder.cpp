#include "athanor/text/decoders/decoder.h"

#include <charconv>
#include <optional>

#include "athanor/text/byte_level.h"
#include "athanor/text/pre_tokenizers/metaspace.h"
#include "athanor/text/pre_tokenizers/pattern.h"
#include "athanor/text/unicode.h"

namespace athanor::text::decoders {
namespace {

class ByteLevelDecoder final : public Decoder {
 public:
  void decode(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens)
      if (auto bytes = chars_to_bytes(token)) token = std::move(*bytes);
  }
};

// <0xE4> <0xBD> <0xA0> become bytes.
class ByteFallbackDecoder final : public Decoder {
 public:
  void decode(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens)
      if (const auto byte = byte_of(token)) token.assign(1, static_cast<char>(*byte));
  }

 private:
  static std::optional<uint8_t> byte_of(const std::string& text) {
    if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
    uint8_t byte = 0;
    const auto [end, error] = std::from_chars(text.data() + 3, text.data() + 5, byte, 16);
    if (error != std::errc{} || end != text.data() + 5) return std::nullopt;
    return byte;
  }
};

class FuseDecoder final : public Decoder {
 public:
  void decode(std::vector<std::string>& tokens) const override {
    std::string all;
    for (const std::string& token : tokens) all += token;
    tokens.assign(1, {std::move(all)});
  }
};

class ReplaceDecoder final : public Decoder {
 public:
  ReplaceDecoder(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void decode(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) token = pattern_.replace_all(token, content_);
  }

 private:
  Pattern pattern_;
  std::string content_;
};

// Takes up to `start` times the character off a token's front and up to `stop` times off its back.
class StripDecoder final : public Decoder {
 public:
  StripDecoder(uint32_t content, int64_t start, int64_t stop) : start_(start), stop_(stop) {
    append_utf8(content_, content);
  }
  void decode(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      for (int64_t i = 0; i < start_ && token.starts_with(content_); ++i) token.erase(0, content_.size());
      for (int64_t i = 0; i < stop_ && token.ends_with(content_); ++i)
        token.erase(token.size() - content_.size());
    }
  }

 private:
  std::string content_;
  int64_t start_, stop_;
};

class MetaspaceDecoder final : public Decoder {
 public:
  explicit MetaspaceDecoder(Metaspace options) : prepends_(options.prepend != Metaspace::Prepend::never) {
    std::string mark;
    append_utf8(mark, options.replacement);
    mark_ = Pattern(mark);
  }
  void decode(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = mark_.replace_all(tokens[i], i == 0 && prepends_ ? "" : " ");
  }

 private:
  bool prepends_;
  Pattern mark_{std::string()};
};

// A word's last token ends in the suffix; elsewhere the suffix is a space between words.
class BpeDecoder final : public Decoder {
 public:
  explicit BpeDecoder(const std::string& suffix) : suffix_(suffix) {}
  void decode(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = suffix_.replace_all(tokens[i], i + 1 == tokens.size() ? "" : " ");
  }

 private:
  Pattern suffix_;
};

class SequenceDecoder final : public Decoder {
 public:
  explicit SequenceDecoder(std::vector<std::unique_ptr<Decoder>> steps) : steps_(std::move(steps)) {}
  void decode(std::vector<std::string>& tokens) const override {
    for (const auto& step : steps_) step->decode(tokens);
  }

 private:
  std::vector<std::unique_ptr<Decoder>> steps_;
};

}  // namespace

std::unique_ptr<Decoder> parse_decoder(const JsonNode& node) {
  const std::string type = node.at("type").text();
  if (type == "ByteLevel") return std::make_unique<ByteLevelDecoder>();
  if (type == "ByteFallback") return std::make_unique<ByteFallbackDecoder>();
  if (type == "Fuse") return std::make_unique<FuseDecoder>();
  if (type == "Replace")
    return std::make_unique<ReplaceDecoder>(parse_pattern(node.at("pattern")), node.at("content").text());
  if (type == "Strip")
    return std::make_unique<StripDecoder>(node.at("content").character(), node.at("start").integer(),
                                          node.at("stop").integer());
  if (type == "Metaspace") return std::make_unique<MetaspaceDecoder>(parse_metaspace(node));
  if (type == "BPEDecoder") return std::make_unique<BpeDecoder>(node.text("suffix", "</w>"));
  if (type == "WordPiece") return parse_word_piece_decoder(node);
  if (type != "Sequence")
    node.at("type").fail("got '" + type +
                         "', expected ByteLevel, ByteFallback, Fuse, Replace, Strip, Metaspace, BPEDecoder, "
                         "WordPiece or Sequence");
  std::vector<std::unique_ptr<Decoder>> steps;
  for (const JsonNode& step : node.at("decoders").items()) steps.push_back(parse_decoder(step));
  return std::make_unique<SequenceDecoder>(std::move(steps));
}

}  // namespace athanor::text::decoders
