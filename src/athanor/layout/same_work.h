// Which ranks have the same work on a step by the layout, so that one that takes longer than they do is slow.
//
//   same_work(layout, train, /*rank=*/3) == same_work(layout, train, 1);
//
// The stages of a pipeline differ, and the parts of a sequence (cp) may; of the same stage and part, ranks of dp and of tp do
// not. Where the layout does not tell - parameter servers, experts on other ranks (ep), micro-batches that are shared by speed or
// do not come out even - every rank has -1. Thread rule: a pure function.
#pragma once

#include <cstdint>

#include "athanor/layout/layout.h"

namespace athanor::layout {

int64_t same_work(const Layout& layout, const TrainConfig& train, int rank);

}  // namespace athanor::layout
