// Rewrites text before pre-tokenization: Unicode normal forms, case, replacements. One file per group.
//
//   NormalizedText text({.text = "Ab"});
//   normalizer->apply(text);           // in place
//   std::string plain = normalizer->applied("Ab");
//
// Bytes that are not UTF-8 pass unchanged. Thread rule: const methods from any thread.
#pragma once

#include <memory>
#include <string>

#include "athanor/text/json_node.h"
#include "athanor/text/normalized_text.h"

namespace athanor::text::normalizers {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(NormalizedText& text) const = 0;
  std::string applied(std::string_view text) const;
  // Whether it writes all bytes as characters, so that everything after it is UTF-8.
  virtual bool maps_bytes() const { return false; }
};

std::unique_ptr<Normalizer> parse_normalizer(const JsonNode& node);
// NFC, NFD, NFKC, NFKD, Lowercase, StripAccents; nullptr for another type.
std::unique_ptr<Normalizer> parse_unicode_normalizer(const JsonNode& node);
std::unique_ptr<Normalizer> parse_bert_normalizer(const JsonNode& node);
std::unique_ptr<Normalizer> make_nmt_normalizer();
std::unique_ptr<Normalizer> parse_precompiled_normalizer(const JsonNode& node);

// What the Unicode normalizers are made of.
void to_lowercase(NormalizedText& text);
void strip_marks(bool (*is_stripped)(uint32_t), NormalizedText& text);

}  // namespace athanor::text::normalizers
