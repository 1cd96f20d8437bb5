// The two-way table of a model: token text <-> id. Ids may have gaps, but not huge ones.
//
//   const Vocabulary vocabulary("gpt2: model.vocab", {{"a", 0}, {"b", 1}});
//   vocabulary.find("b");  // 1
//
// Errors: Error naming the table for a negative id, an id above max_sane_id(), or an id or token given twice.
// Thread rule: const methods from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::text::models {

// The largest id that a table of num_tokens tokens may have. Published files leave gaps, but a damaged file must not
// make the program allocate gigabytes.
int64_t max_sane_id(size_t num_tokens);

class Vocabulary {
 public:
  Vocabulary(const std::string& name, std::vector<std::pair<std::string, int64_t>>&& tokens);
  Vocabulary(const std::string& name, std::span<const std::pair<std::string_view, int64_t>> tokens);
  Vocabulary(Vocabulary&&) = default;
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  std::optional<int32_t> find(std::string_view token) const;
  const std::string* token(int32_t id) const;                            // nullptr if the id has no token
  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }  // largest id + 1
  int32_t num_tokens() const { return num_tokens_; }                     // without the gaps

 private:
  // Takes the strings of entries that are not const.
  template <typename Entry>
  void fill(const std::string& name, std::span<Entry> tokens);

  struct Slot {  // of a hash table with linear probing
    uint32_t hash = 0;
    int32_t id = -1;
  };
  // The slot of the token, or the free one where it belongs.
  size_t slot_of(std::string_view token, uint64_t hash) const;

  std::vector<std::string> tokens_;
  std::vector<bool> present_;
  std::vector<Slot> slots_;  // a power of two
  int32_t num_tokens_ = 0;
};

}  // namespace athanor::text::models
