// The worlds that a launcher's agent gives to a worker, over the shared memory of the ranks of one host.
//
//   LaunchedRendezvous rendezvous(link, {.timeout_ms = 600'000});
//   const TrainReport report = train(config, rendezvous, io);
//   link.farewell({.status = Status::finished});
//
// A worker keeps its rank from world to world. Errors: those of open_shm_world(). Thread rule: Rendezvous's.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "athanor/comm/options.h"
#include "athanor/control/agent_link.h"
#include "athanor/run/rendezvous.h"
#include "athanor/run/work_clock.h"

namespace athanor::run {

class LaunchedRendezvous final : public Rendezvous {
 public:
  // Both outlive it. `options`: of the worlds, but for their generation.
  LaunchedRendezvous(AgentLink& link, GroupOptions options);

  std::optional<Meeting> next(const std::string& why) override;
  void begun(int64_t step, const std::string& run_folder, bool in_place, int64_t work) override;
  void committed(int64_t step) override;
  void does(ProgressKind kind) override;
  void progressed() override;
  void happened(const observe::RunEvent& event) override { link_.event({event}); }
  void saved(int64_t step, const std::string& path, const std::string& error) override;
  void persist(const control::Persist& what, const std::vector<TextFile>& files) override;
  std::optional<control::Persisted> persisted(bool wait) override { return link_.take_persisted(wait); }
  bool has_begun() const { return has_begun_; }  // a world of this process

 private:
  struct Place {
    WorldOffer offer;
    std::unique_ptr<World> world;
  };
  Progress progress() const;
  AgentLink& link_;
  WorkClock work_;  // before the worlds, whose groups tell it how long they have waited
  GroupOptions options_;
  std::deque<Place>
      places_;  // the last one is that of the newest world; older ones until its first snapshot is whole
  int64_t step_ = 0;  // the last that was committed
  ProgressKind kind_ = ProgressKind::other;
  std::array<int64_t, 6> counts_{};  // of this process, by kind
  bool has_begun_ = false;
};

}  // namespace athanor::run
