// The methods that make_key_method() chooses from, and what they share. Private to dedup/. Thread rule: key_method.h.
#pragma once

#include <limits>
#include <memory>
#include <string_view>

#include "athanor/base/check.h"
#include "athanor/corpus/dedup/key_method.h"

namespace athanor::corpus::dedup {

std::unique_ptr<KeyMethod> make_exact_keys(const DedupOptions& options);
std::unique_ptr<KeyMethod> make_minhash_keys(const DedupOptions& options);
std::unique_ptr<KeyMethod> make_paragraph_keys(const DedupOptions& options);
std::unique_ptr<KeyMethod> make_sentence_keys(const DedupOptions& options);

// Positions are 32 bits wide.
inline uint32_t checked_size(std::string_view text) {
  base::check(text.size() < std::numeric_limits<uint32_t>::max(),
              "dedup: got a text of {} bytes, expected less than 4 GiB", text.size());
  return static_cast<uint32_t>(text.size());
}

}  // namespace athanor::corpus::dedup
