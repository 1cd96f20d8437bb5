// The device that the tests of this folder run on: the one of the plug-in that ATHANOR_TEST_CUDA names, or else the
// emulated one, which every build has.
#pragma once

#include <string>

#include "athanor/kernels/cuda/calls.h"

namespace athanor::tests {

std::string tested_plugin();
const CudaCalls& tested_calls();

}  // namespace athanor::tests
