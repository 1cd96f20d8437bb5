// The parts of a rank that has no parameter servers (engine/data_parallel_role.h), for tests that drive them alone.
//
//   parallel_of(training).finish();
#pragma once

#include "athanor/engine/data_parallel_role.h"
#include "athanor/engine/setup.h"

namespace athanor::tests {

inline engine::DataParallelRole& role_of(const engine::Training& training) {
  return dynamic_cast<engine::DataParallelRole&>(*training.role);
}

inline parallel::data::DataParallel& parallel_of(const engine::Training& training) {
  return role_of(training).parallel();
}

}  // namespace athanor::tests
