// A world in front of another one that carries out a plan of faults: in the step that it was asked for, a rank gives NaN to its
// first reduction of gradients, as a device does in which a bit has flipped. Steps are counted by their sums of losses.
//
//   TrainIo io{.env = env};
//   io.in_front = [plan = std::make_shared<FaultPlan>(path)](World& world) { return with_faults(world, plan); };
//
// All else is the real world's. Only a job of a trial has a plan. Thread rule and errors: the world's.
#pragma once

#include <memory>

#include "athanor/chaos/fault_plan.h"
#include "athanor/comm/world.h"

namespace athanor::chaos {

std::unique_ptr<World> with_faults(World& real, std::shared_ptr<FaultPlan> plan);  // `real` outlives it

}  // namespace athanor::chaos
