// A run whose ranks are killed and replaced, with ranks as threads: what a launcher does with processes. Survivors keep
// what they have; the new rank has its predecessor's slots, as whoever holds their memory gives them to it.
//
//   ReplacedRanks launcher(run.ranks, {{.rank = 1, .call = 17}});
//   run.train(env, [&](const Config& config, World& world, TrainIo& io) { return launcher.train(config, world.rank(), io); });
//   EXPECT_EQ(launcher.killed(), 1);
//
// A kill is at the start of a rank's call between ranks, counted over all groups, and over the first world and those after it or
// in one of them. The rank
// then leaves its train() by an exception that nobody catches, so that it can tidy up nothing in its files but what
// destructors do. Thread rule: train() in each rank's thread.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "athanor/base/shared_memory.h"
#include "athanor/comm/shm/thread.h"
#include "athanor/run/trainer.h"

namespace athanor::tests {

struct Kill {
  int rank = 0;
  int64_t call = 0;         // of that rank, from 0
  int64_t generation = -1;  // in whose world the calls are counted; -1: in all
};

class ReplacedRanks {
 public:
  ReplacedRanks(int ranks, std::vector<Kill> kills)
      : ranks_(ranks), calls_(ranks), calls_in_world_(ranks), kills_(std::move(kills)) {}
  ~ReplacedRanks() {
    for (const Generation& generation : generations_)
      for (const int fd : generation.slots_fds) close(fd);
  }
  ReplacedRanks(const ReplacedRanks&) = delete;
  ReplacedRanks& operator=(const ReplacedRanks&) = delete;

  TrainReport train(const Config& config, int rank, const TrainIo& io) {
    size_t next = 0;  // generation
    for (bool is_replacement = false;; is_replacement = true) {
      OfRank rendezvous(*this, rank, next, is_replacement);
      try {
        return athanor::run::train(config, rendezvous, io);
      } catch (const Killed&) {
        next = rendezvous.next_generation();
        world_of(next - 1, rank).abort("rank " + std::to_string(rank) + " was killed");
      } catch (const std::exception& error) {
        world_of(rendezvous.next_generation() - 1, rank).abort(error.what());
        throw;
      }
    }
  }

  // Called with the memory of a killed rank's slots, before its successor reads them.
  std::function<void(int fd)> damage = [](int) {};

  int64_t killed() const { return killed_.load(); }
  int64_t done_before() const {
    return done_before_.load();
  }  // the newest step that was done before the first kill
  int64_t in_place() const { return in_place_.load(); }  // worlds that went on in the slots of the one before
  int64_t num_calls(int rank) const { return calls_[static_cast<size_t>(rank)].load(); }

 private:
  struct Killed {};  // no std::exception: nobody catches it
  struct Generation {
    std::vector<std::unique_ptr<World>> worlds;
    std::vector<int> slots_fds;
    bool is_begun = false;
  };

  // Counts calls, and kills in one of them.
  class Front final : public Group {
   public:
    Front(ReplacedRanks& launcher, World& world, Group& real)
        : launcher_(launcher), world_(world), real_(&real) {}
    Front(ReplacedRanks& launcher, World& world, std::unique_ptr<Group> real)
        : launcher_(launcher), world_(world), own_(std::move(real)), real_(own_.get()) {}
    int rank() const override { return real_->rank(); }
    int size() const override { return real_->size(); }
    const std::string& name() const override { return real_->name(); }
    Work start(Call call, Buffers buffers, Start how) override {
      launcher_.count(world_.rank(), world_.generation());
      return real_->start(std::move(call), std::move(buffers), how);
    }
    Traffic traffic() const override { return real_->traffic(); }
    void throw_if_broken() override { real_->throw_if_broken(); }
    void abort(const std::string& reason) override { real_->abort(reason); }

   private:
    ReplacedRanks& launcher_;
    World& world_;
    std::unique_ptr<Group> own_;
    Group* real_;
  };

  class FrontWorld final : public World {
   public:
    FrontWorld(ReplacedRanks& launcher, World& real)
        : launcher_(launcher), real_(real), all_(launcher, real, real.all()) {}
    int rank() const override { return real_.rank(); }
    int size() const override { return real_.size(); }
    int generation() const override { return real_.generation(); }
    Group& all() override { return all_; }
    std::shared_ptr<std::byte> allocate(size_t size_bytes) override { return real_.allocate(size_bytes); }
    std::unique_ptr<Group> make_group(std::vector<int> members, std::string name) override {
      return std::make_unique<Front>(launcher_, real_, real_.make_group(std::move(members), std::move(name)));
    }
    void abort(const std::string& reason) override { real_.abort(reason); }

   private:
    ReplacedRanks& launcher_;
    World& real_;
    Front all_;
  };

  class OfRank final : public Rendezvous {
   public:
    OfRank(ReplacedRanks& launcher, int rank, size_t next, bool is_replacement)
        : launcher_(launcher), rank_(rank), next_(next), is_new_(is_replacement) {}
    std::optional<Meeting> next(const std::string& why) override {
      const std::lock_guard lock(launcher_.mutex_);
      Generation& generation = launcher_.generation(next_);
      worlds_.push_back(
          std::make_unique<FrontWorld>(launcher_, *generation.worlds[static_cast<size_t>(rank_)]));
      Meeting meeting{.world = worlds_.back().get(),
                      .why = why,
                      .slots_fd = generation.slots_fds[static_cast<size_t>(rank_)]};
      if (std::exchange(is_new_, false))
        for (size_t i = next_; i-- > 0;)
          if (launcher_.generations_[i].is_begun) {
            launcher_.damage(launcher_.generations_[i].slots_fds[static_cast<size_t>(rank_)]);
            meeting.left_slots_fds = {launcher_.generations_[i].slots_fds[static_cast<size_t>(rank_)]};
            break;
          }
      ++next_;
      return meeting;
    }
    void begun(int64_t, const std::string&, bool in_place, int64_t) override {
      const std::lock_guard lock(launcher_.mutex_);
      Generation& now = launcher_.generations_[next_ - 1];
      if (!now.is_begun && in_place) {
        for (size_t i = next_ - 1; i-- > 0;)
          if (launcher_.generations_[i].is_begun) {
            now.slots_fds.swap(launcher_.generations_[i].slots_fds);
            ++launcher_.in_place_;
            break;
          }
      }
      now.is_begun = true;
    }
    void committed(int64_t step) override {
      if (launcher_.killed_.load() == 0)
        launcher_.done_before_ = std::max(launcher_.done_before_.load(), step);
    }
    size_t next_generation() const { return next_; }

   private:
    ReplacedRanks& launcher_;
    int rank_;
    size_t next_;
    bool is_new_;
    std::vector<std::unique_ptr<World>> worlds_;
  };

  Generation& generation(size_t number) {
    while (generations_.size() <= number) {
      GroupOptions options;
      options.generation = static_cast<int>(generations_.size());
      Generation& made = generations_.emplace_back();
      made.worlds = make_thread_worlds(ranks_, options);
      for (int rank = 0; rank < ranks_; ++rank) made.slots_fds.push_back(create_shared_memory("slots", 0));
    }
    return generations_[number];
  }

  World& world_of(size_t number, int rank) {
    const std::lock_guard lock(mutex_);
    return *generation(number).worlds[static_cast<size_t>(rank)];
  }

  void count(int rank, int generation) {
    const auto of = static_cast<size_t>(rank);
    const int64_t call = calls_[of]++;
    if (std::exchange(calls_in_world_[of].generation, generation) != generation)
      calls_in_world_[of].count = 0;
    const int64_t call_in_world = calls_in_world_[of].count++;
    for (const Kill& kill : kills_)
      if (kill.rank == rank && (kill.generation < 0             ? kill.call == call
                                : kill.generation == generation ? kill.call == call_in_world
                                                                : false)) {
        ++killed_;
        throw Killed{};
      }
  }

  const int ranks_;
  struct InWorld {
    int64_t generation = 0, count = 0;
  };
  std::vector<std::atomic<int64_t>> calls_;
  std::vector<InWorld> calls_in_world_;  // each its rank's own
  const std::vector<Kill> kills_;
  std::atomic<int64_t> killed_ = 0, done_before_ = 0, in_place_ = 0;
  std::mutex mutex_;
  std::deque<Generation> generations_;
};

}  // namespace athanor::tests
