// train as a worker of `athanor launch`: its worlds come from the launcher's agent, which learns how it ends.
#pragma once

#include <functional>

#include "athanor/comm/options.h"
#include "athanor/config/config.h"
#include "athanor/launch/environment/environment.h"
#include "athanor/launch/warm_up/measure.h"
#include "athanor/run/rendezvous.h"
#include "athanor/run/report.h"

namespace athanor::apps {

// Ranks that find each other over a network form no second world.
bool is_worker_of_an_agent(const RankEnvironment& place, const Config& config);

// `measured`: how this rank warms up. Errors of `train` are passed on. IoError where the agent is gone.
TrainReport train_as_worker(const RankEnvironment& place, const GroupOptions& options,
                            const MeasureOptions& measured,
                            const std::function<TrainReport(Rendezvous&)>& train);

}  // namespace athanor::apps
