// What other programs call our settings, and what we called them before, so that who types that word is told ours.
// Nothing is read by these names.
//
//   find_peer_key("train", "gradient_accumulation_steps");   // {"train.global_batch_size", "accumulation follows: ..."}
//   peer_value("float16", {"f32", "bf16", "f16"});  // "f16"
//
// Case, '-' and '_' make no difference. Thread rule: constant data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::config {

struct PeerKey {
  const char* ours = nullptr;  // null: no such name
  const char* note = "";       // where ours means something else
  bool was_ours = false;       // a key of this section that had another name
};

PeerKey find_peer_key(std::string_view section, std::string_view name);

// The one of `choices` that others call `value`; "" where there is none.
std::string peer_value(std::string_view value, const std::vector<std::string>& choices);

}  // namespace athanor::config
