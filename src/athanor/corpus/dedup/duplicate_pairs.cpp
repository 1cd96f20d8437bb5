#include "athanor/corpus/dedup/duplicate_pairs.h"

#include <utility>

#include "athanor/base/check.h"

namespace athanor::corpus::dedup {

DuplicatePairs::DuplicatePairs(Survives survives, Use use)
    : survives_(std::move(survives)), use_(std::move(use)) {}

void DuplicatePairs::add(const KeyRecord& record) {
  base::check(!(record < last_),
              "dedup: got a record of document {} behind one of document {}, expected sorted records",
              record.document, last_.document);
  last_ = record;
  if (!survives_(record.document)) return;
  if (!any_ || record.key != first_.key) {
    first_ = record;
    any_ = true;
    paired_ = false;
    return;
  }
  groups_ += !paired_;
  paired_ = true;
  ++pairs_;
  use_(first_, record);
}

}  // namespace athanor::corpus::dedup
