// The settings that the Metaspace pre-tokenizer and decoder share.
#pragma once

#include <cstdint>

#include "athanor/text/json_node.h"

namespace athanor::text::pre_tokenizers {

struct Metaspace {
  enum class Prepend : uint8_t { always, first, never };
  uint32_t replacement = 0x2581;  // "▁"
  Prepend prepend = Prepend::always;
};

Metaspace parse_metaspace(const JsonNode& node);

}  // namespace athanor::text::pre_tokenizers
