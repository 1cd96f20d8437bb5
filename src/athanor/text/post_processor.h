// The tokens that a tokenizer.json's post_processor puts around a text: <s> before it, </s> behind it.
//
//   const SurroundingTokens around = parse_post_processor(root.at("post_processor"));
//   // around.before = {1}
//
// Thread rule: plain data.
#pragma once

#include <cstdint>
#include <vector>

#include "athanor/text/json_node.h"

namespace athanor::text {

struct SurroundingTokens {
  std::vector<int32_t> before, behind;
};

SurroundingTokens parse_post_processor(const JsonNode& node);

}  // namespace athanor::text
