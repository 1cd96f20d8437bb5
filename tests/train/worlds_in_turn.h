// Worlds of one run, one after the other, with ranks as threads: how tests let a group fail and the run go on in the next
// world (run/rendezvous.h).
//
//   WorldsInTurn worlds(run.ranks, 2, [&](World& real, size_t generation) { return generation == 0 ? lost(real) : nullptr; });
//   run.train(env, [&](const Config& config, World& world, TrainIo& io) { return worlds.train(config, world.rank(), io); });
//
// Thread rule: train() in each rank's thread.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "athanor/comm/shm/thread.h"
#include "athanor/run/trainer.h"

namespace athanor::tests {

class WorldsInTurn {
 public:
  // What a rank sees in place of its world of that generation; null: the world itself.
  using Front = std::function<std::unique_ptr<World>(World& real, size_t generation)>;
  WorldsInTurn(int ranks, size_t generations, Front front) : front_(std::move(front)) {
    for (size_t generation = 0; generation < generations; ++generation) {
      GroupOptions options;
      options.generation = static_cast<int64_t>(generation);
      worlds_.push_back(make_thread_worlds(ranks, options));
    }
  }

  TrainReport train(const Config& config, int rank, const TrainIo& io) {
    OfRank rendezvous(*this, rank);
    try {
      return athanor::run::train(config, rendezvous, io);
    } catch (const std::exception& error) {
      rendezvous.leave(error.what());
      throw;
    }
  }

 private:
  class OfRank final : public Rendezvous {
   public:
    OfRank(WorldsInTurn& worlds, int rank) : worlds_(worlds), rank_(static_cast<size_t>(rank)) {}
    std::optional<Meeting> next(const std::string& why) override {
      if (generation_ == worlds_.worlds_.size()) return std::nullopt;
      World& world = *worlds_.worlds_[generation_][rank_];
      fronts_.push_back(worlds_.front_(world, generation_++));
      return Meeting{fronts_.back() != nullptr ? fronts_.back().get() : &world, why};
    }

    // This rank has ended with an error: the others of its world learn of it, as of a process that is gone.
    void leave(const std::string& why) {
      if (generation_ > 0) worlds_.worlds_[generation_ - 1][rank_]->abort(why);
    }

   private:
    WorldsInTurn& worlds_;
    size_t rank_, generation_ = 0;
    std::vector<std::unique_ptr<World>> fronts_;
  };

  Front front_;
  std::vector<std::vector<std::unique_ptr<World>>> worlds_;
};

}  // namespace athanor::tests
