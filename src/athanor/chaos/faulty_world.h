// A world in front of another one that carries out a plan of faults (fault_plan.h): at the collective that it was asked for, a
// rank gives NaN, gets a bit that has flipped, makes no call, a late one, or another one than the others make.
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
