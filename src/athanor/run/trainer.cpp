#include "athanor/run/trainer.h"

#include <fmt/format.h>

#include <algorithm>

#include "athanor/base/error.h"
#include "athanor/run/segment_chain.h"

namespace athanor::run {

int threads_of_rank(const Config& config, int ranks_of_processors) {
  if (config.train.threads > max_threads())
    throw ConfigError(fmt::format("train.threads: got {}, expected at most {} on {} processors",
                                  config.train.threads, max_threads(), num_usable_cpus()));
  if (config.train.threads > 0) return static_cast<int>(config.train.threads);
  return std::max(1, num_usable_cpus() / std::max(1, ranks_of_processors));
}

TrainReport train(const Config& config, World& world, const TrainIo& io) {
  OneWorld rendezvous(world);
  return train(config, rendezvous, io);
}

TrainReport train(const Config& config, Rendezvous& rendezvous, const TrainIo& io) {
  SegmentChain chain(config, rendezvous, io);
  try {
    return chain.train();
  } catch (const NotFinite& error) {
    if (!chain.run()) throw;
    const NotFinite whole = chain.run()->keeper.with_checkpoint(error);
    chain.run()->failed(whole.what());
    throw NotFinite(whole);
  } catch (const std::exception& error) {
    if (chain.run()) chain.run()->failed(error.what());
    throw;
  }
}

}  // namespace athanor::run
