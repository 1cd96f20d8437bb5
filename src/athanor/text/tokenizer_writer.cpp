#include "athanor/text/tokenizer_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace athanor::text {

OrderedJson tokenizer_json(const TokenIds& special_tokens) {
  OrderedJson added = OrderedJson::array();
  for (const auto& [content, id] : special_tokens)
    added.push_back({{"id", id},
                     {"content", content},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  return {{"version", "1.0"},          {"truncation", nullptr}, {"padding", nullptr},
          {"added_tokens", added},     {"normalizer", nullptr}, {"pre_tokenizer", nullptr},
          {"post_processor", nullptr}, {"decoder", nullptr},    {"model", nullptr}};
}

OrderedJson vocab_json(const TokenIds& tokens) {
  // An ordered object looks for the key before every insertion; the tokens are known to differ.
  OrderedJson::object_t vocab;
  vocab.reserve(tokens.size());
  for (const auto& [token, id] : tokens) vocab.emplace_back(token, id);
  return vocab;
}

OrderedJson bpe_json(const TokenIds& tokens, const std::vector<std::pair<std::string, std::string>>& merges) {
  const bool has_space = std::ranges::any_of(merges, [](const auto& merge) {
    return merge.first.find(' ') != std::string::npos || merge.second.find(' ') != std::string::npos;
  });
  OrderedJson list = OrderedJson::array();
  for (const auto& [left, right] : merges)
    list.push_back(has_space ? OrderedJson::array({left, right})
                             : OrderedJson(fmt::format("{} {}", left, right)));
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", vocab_json(tokens)},
          {"merges", std::move(list)}};
}

OrderedJson split_json(std::string_view regex) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
}

OrderedJson byte_level_json(std::string_view regex) {
  const auto byte_level = [](bool use_regex) {
    return OrderedJson{
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
  };
  OrderedJson pre_tokenizer = byte_level(true);
  if (known_pattern(regex) != WordPattern::gpt2)
    pre_tokenizer = {{"type", "Sequence"},
                     {"pretokenizers", OrderedJson::array({split_json(regex), byte_level(false)})}};
  return {{"pre_tokenizer", std::move(pre_tokenizer)},
          {"post_processor", byte_level(true)},
          {"decoder", byte_level(true)}};
}

OrderedJson byte_fallback_decoder_json() {
  return {{"type", "Sequence"},
          {"decoders", OrderedJson::array({{{"type", "ByteFallback"}}, {{"type", "Fuse"}}})}};
}

std::string to_text(const OrderedJson& file) {
  return file.dump(2) + "\n";
}

}  // namespace athanor::text
