// The parts of a rank that has no parameter servers (train/engine/data_parallel_role.h), for tests that drive them alone.
//
//   parallel_of(training).finish();
#pragma once

#include "athanor/train/engine/data_parallel_role.h"
#include "athanor/train/engine/setup.h"

namespace athanor::tests {

inline train::engine::DataParallelRole& role_of(const train::engine::Training& training) {
  return dynamic_cast<train::engine::DataParallelRole&>(*training.role);
}

inline parallel::data::DataParallel& parallel_of(const train::engine::Training& training) {
  return role_of(training).parallel();
}

}  // namespace athanor::tests
