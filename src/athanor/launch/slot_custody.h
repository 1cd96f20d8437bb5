// Which process holds which slots of the last generation that had begun, so that none are lost before the next one has.
//
//   SlotCustody custody;
//   custody.begun(3, {10, 11, 12});                                      // by rank: who has the slots of generation 3
//   ... worker 11 dies, worker 13 takes its rank ...
//   custody.hand_over({10, 13, 12});                                     // {{}, {1}, {}}: its predecessor's
//
// What a member holds it keeps, from its own training or as it was given. Slots whose holder is gone go to the
// process that has the same rank, or, if there is none, to the first rank with room. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::launch {

class SlotCustody {
 public:
  // A snapshot of this generation is whole on every rank.
  void begun(int64_t generation, std::vector<int> workers);
  int64_t generation() const { return generation_; }  // -1: none has begun

  // The slots to give to each member of a new generation, all of which live, as ranks of generation().
  std::vector<std::vector<int>> hand_over(const std::vector<int>& members);

 private:
  int64_t generation_ = -1;
  std::vector<int> holders_;  // by rank of generation_
};

}  // namespace athanor::launch
