// A rank that counts steps with the others and goes on after failures, for the tests of the launcher.
#pragma once

#include "athanor/launch/environment/environment.h"

namespace athanor::tests {

// Arguments: STEPS VICTIM STAGE LIVES. Rank VICTIM (-1: every rank) kills itself at STAGE as long as the launch has started
// fewer than LIVES processes beyond the first ones. Stages: hello, ready, meet, begin, begun, or the number of a step.
int recover(const RankEnvironment& place, int argc, char** argv);

}  // namespace athanor::tests
