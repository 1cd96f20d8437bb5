// Pairs of copies out of sorted records: the first of each key with every later one of that key.
//
//   DuplicatePairs pairs(survives, [&](const KeyRecord& first, const KeyRecord& later) {
//     components.join(first.document, later.document);
//   });
//   sorter.merge([&](const KeyRecord& record) { pairs.add(record); });
//
// A key of which one record is left makes no pair; one with m records makes m - 1, so that a group of any size takes
// no memory. Documents that do not survive (an earlier stage dropped them) are left out before pairs are made: their
// copies still find each other. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <functional>

#include "athanor/corpus/dedup/record.h"

namespace athanor::corpus::dedup {

class DuplicatePairs {
 public:
  using Survives = std::function<bool(uint64_t document)>;
  using Use = std::function<void(const KeyRecord& first, const KeyRecord& later)>;
  DuplicatePairs(Survives survives, Use use);

  void add(const KeyRecord& record);           // Error where the records are not in order
  uint64_t groups() const { return groups_; }  // keys of two and more records
  uint64_t pairs() const { return pairs_; }

 private:
  Survives survives_;
  Use use_;
  KeyRecord first_ = {}, last_ = {};
  uint64_t groups_ = 0, pairs_ = 0;
  bool any_ = false;     // first_ is one
  bool paired_ = false;  // it has made a pair
};

}  // namespace athanor::corpus::dedup
