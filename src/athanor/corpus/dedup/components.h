// Connected components of documents that are copies of each other; the first document of each is kept.
//
//   Components components(num_documents);
//   components.join(3, 17);
//   components.join(17, 12);
//   const bool kept = components.kept_of(12) == 12;  // no: 3 is kept, for 3, 12 and 17
//
// What is kept depends on which pairs were joined, not on their order. Being a copy is taken as transitive: where A
// is like B and B like C, one of the three stays. Memory: 4 bytes a document, for up to 2^32 - 1 documents. Source:
// Tarjan and van Leeuwen, "Worst-case analysis of set union algorithms" (1984), path halving. Thread rule: one
// thread.
#pragma once

#include <cstdint>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::dedup {

class Components {
 public:
  explicit Components(uint64_t num_documents);  // numbers 0 to num_documents - 1, each alone

  // Error for a number that is too large.
  void join(uint64_t left, uint64_t right);
  uint64_t kept_of(uint64_t document);  // the least number of its component
  bool is_kept(uint64_t document) { return kept_of(document) == document; }

  uint64_t num_documents() const { return parents_.size(); }
  uint64_t num_components() const { return num_components_; }

 private:
  std::vector<uint32_t> parents_;  // none is above its child, so that the root is the least
  uint64_t num_components_;
};

}  // namespace athanor::corpus::dedup
