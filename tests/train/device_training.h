// Trainings on devices, the emulated one of tests/cuda/emulated: the program's own path through plug-in, arena,
// copies and drivers. The host's touching the device's memory would end the test.
#pragma once

#include "athanor/comm/nccl/nccl.h"
#include "athanor/comm/shm/thread.h"
#include "athanor/engine/unshard.h"
#include "athanor/kernels/cuda/plugin.h"
#include "athanor/kernels/cuda/queue.h"
#include "support/places.h"
#include "train/small_training.h"

namespace athanor::tests {

// Every rank is a thread with a queue of its own; their groups are NCCL's, emulated. The weights are put together from
// what the ranks have.
inline Outcome run_on_devices(const Config& config, int ranks,
                              const std::function<void(const Training&)>& after_step = {}) {
  const auto worlds = make_thread_worlds(ranks);
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  Gathering weights;
  run_ranks(worlds, [&](World& host) {
    CudaQueue queue(load_cuda(built("athanor_cuda_emulated.so")), 0, nullptr);
    Arena arena(queue);
    const auto world = make_nccl_world(host, {load_nccl(built("athanor_cuda_emulated.so")), queue, arena});
    TrainingRank rank(config, *world, arena);
    Training& training = rank.training;
    outcomes[static_cast<size_t>(host.rank())].steps = run_steps(training, config, after_step);
    for (const NamedTensor& part : training.tensors())
      if (part.name.starts_with("model.")) weights.put(part);
  });
  for (const Outcome& outcome : outcomes) EXPECT_TRUE(same_bits(outcome, outcomes[0])) << "ranks disagree";
  for (const auto& [name, values] : weights.whole())
    outcomes[0].weights.insert(outcomes[0].weights.end(), values.begin(), values.end());
  return outcomes[0];
}

}  // namespace athanor::tests
