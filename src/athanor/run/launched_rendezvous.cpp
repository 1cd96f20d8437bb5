#include "athanor/run/launched_rendezvous.h"

#include <algorithm>
#include <utility>

#include "athanor/base/clock.h"
#include "athanor/base/shared_memory.h"
#include "athanor/checkpoint/format/persist.h"
#include "athanor/comm/shm/shm.h"
#include "athanor/control/descriptor.h"

namespace athanor::run {

LaunchedRendezvous::LaunchedRendezvous(AgentLink& link, GroupOptions options)
    : link_(link), options_(std::move(options)) {
  options_.on_waited = [this](int64_t waited_ns) { work_.waited(waited_ns); };
}

std::optional<Meeting> LaunchedRendezvous::next(const std::string& why) {
  auto offer = link_.next(places_.empty() ? -1 : places_.back().offer.generation, why);
  if (!offer) return std::nullopt;
  Place& place = places_.emplace_back(Place{std::move(*offer), nullptr});
  GroupOptions options = options_;
  options.generation = static_cast<int>(place.offer.generation);
  place.world = open_shm_world(place.offer.segment.get(), place.offer.rank, place.offer.size, options);
  Meeting meeting{.world = place.world.get(),
                  .why = place.offer.why,
                  .slots_fd = place.offer.slots.get(),
                  .is_on_one_host = true,
                  .holder_saves = true,
                  .saves_first = place.offer.order.save,
                  .set = place.offer.order.set,
                  .rollback_step = place.offer.order.rollback_step};
  for (const WorldOffer::Left& left : place.offer.left) meeting.left_slots_fds.push_back(left.slots.get());
  return meeting;
}

void LaunchedRendezvous::begun(int64_t step, const std::string& run_folder, bool in_place, int64_t work) {
  Place& newest = places_.back();
  newest.offer.left.clear();
  step_ = step;
  has_begun_ = true;
  while (places_.size() > 1) places_.pop_front();
  link_.begun({.generation = newest.offer.generation,
               .step = step,
               .run_folder = run_folder,
               .in_place = in_place,
               .work = work});
}

void LaunchedRendezvous::committed(int64_t step) {
  step_ = step;
  kind_ = ProgressKind::step;
  work_.end(now_ns());
  progressed();
  work_.begin(now_ns());
}

Progress LaunchedRendezvous::progress() const {
  return {.generation = places_.back().offer.generation,
          .step = step_,
          .kind = kind_,
          .count = counts_[static_cast<size_t>(kind_)],
          .busy_ns = work_.busy_ns(),
          .waited_ns = work_.waited_ns()};
}

void LaunchedRendezvous::does(ProgressKind kind) {
  if (places_.empty() || std::exchange(kind_, kind) == kind) return;
  if (kind == ProgressKind::step)
    work_.begin(now_ns());
  else
    work_.end(now_ns());
  link_.does(progress());
}

void LaunchedRendezvous::progressed() {
  if (places_.empty()) return;
  ++counts_[static_cast<size_t>(kind_)];
  link_.progress(progress());
}

void LaunchedRendezvous::saved(int64_t step, const std::string& path, const std::string& error) {
  link_.saved({.generation = places_.back().offer.generation, .step = step, .path = path, .error = error});
}

void LaunchedRendezvous::persist(const control::Persist& what, const std::vector<TextFile>& files) {
  const std::string text = pack_files(files);
  const Descriptor memory(create_shared_memory("athanor checkpoint files", text.size()));
  const auto mapped = map_shared_memory(std::max<size_t>(text.size(), 1), memory.get());
  std::copy(text.begin(), text.end(), reinterpret_cast<char*>(mapped.get()));
  control::Persist sent = what;
  sent.generation = places_.back().offer.generation;
  sent.files_bytes = static_cast<int64_t>(text.size());
  link_.persist(sent, memory.get());
}

}  // namespace athanor::run
