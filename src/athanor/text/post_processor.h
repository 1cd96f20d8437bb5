// What a tokenizer.json's post_processor does to the tokens of a text or of a pair of texts: it puts special tokens around
// them and trims offsets.
//
//   const PostProcessor post = parse_post_processor(root.at("post_processor"));
//   post.around().before;                            // {1}: <s> before a text
//   Encoding whole = post.process(a, {});   // with the special tokens
//
// Thread rule: const methods from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/text/encoding.h"
#include "athanor/text/json_node.h"

namespace athanor::text {

struct SurroundingTokens {
  std::vector<int32_t> before, behind;
};

class PostProcessor {
 public:
  PostProcessor() = default;  // none

  SurroundingTokens around() const;  // of a text alone
  Encoding process(const Encoding& first, const std::optional<Encoding>& second) const;
  // Takes the white space off the ranges, if the file wants that. The tokens must be known.
  void trim(std::string_view text, Encoding& encoding) const;
  bool trims() const { return !trims_.empty(); }

 private:
  friend PostProcessor parse_post_processor(const JsonNode& node);

  struct Item {
    std::optional<int> sequence = {};  // 0 or 1: a text; none: a special token
    int32_t id = 0;
    std::string token = {};
    int32_t type = 0;
  };
  static void parse_template(const JsonNode& node, const char* key, std::vector<Item>& items);
  void read(const JsonNode& node);

  std::vector<Item> single_ = {{.sequence = 0}}, pair_ = {{.sequence = 0}, {.sequence = 1, .type = 1}};
  std::vector<bool> trims_;  // whether each that trims had a space put before the text
};

PostProcessor parse_post_processor(const JsonNode& node);

}  // namespace athanor::text
