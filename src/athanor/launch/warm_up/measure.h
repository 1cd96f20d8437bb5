// What a rank measures when the launcher warms up: how fast it multiplies matrices and copies memory, and whether it can write where
// its run does.
//
//   link_options.warm_up = [&] { return measure(options); };         // control/agent_link.h
//
// Takes about 30 ms and a disk's sync. A folder that cannot be written to, or is full, is a refusal: no checkpoint could be written.
// Other failures are warnings. Ports are not looked at: ranks that an agent leads are on one host, meet in shared memory and
// over a socket that has a path, and use none. Never throws what the system has refused. Thread rule: one thread.
#pragma once

#include <string>

#include "athanor/base/file.h"
#include "athanor/control/warm_up_messages.h"
#include "athanor/launch/warm_up/matrix_product.h"

namespace athanor::launch::warm_up {

struct MeasureOptions {
  MatrixProductOptions matrix_product{};
  std::string run_folder{};
  int rank = 0;
  Env* env = &system_env();
};

control::WarmedUp measure(const MeasureOptions& options);

}  // namespace athanor::launch::warm_up
