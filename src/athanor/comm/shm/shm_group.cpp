#include "athanor/comm/shm/shm_group.h"

#include <utility>

#include "athanor/base/check.h"

namespace athanor::comm::shm {

SlotGroup::SlotGroup(Transport transport, int rank, GroupOptions options)
    : memory_(std::move(transport.memory)),
      link_(transport.arena, rank, std::move(options), std::move(transport.death_of),
            std::move(transport.membership)),
      regions_(rank, transport.arena.size(), std::move(transport.rank_memory)),
      mail_(link_, regions_, traffic_),
      queue_(link_.options(), [this](const std::exception& error) { return failure_of(error); }) {}

SlotGroup::~SlotGroup() {
  mail_.finish();
  queue_.finish();
  link_.arena().set_presence(link_.rank(), Presence::left);
}

Work SlotGroup::start(Call call, Buffers buffers, Start how) {
  // The data of a send are only read.
  if (call.collective == Collective::send)
    return mail_.start(call, const_cast<std::byte*>(static_cast<const std::byte*>(buffers.in)));
  if (call.collective == Collective::recv) return mail_.start(call, static_cast<std::byte*>(buffers.out));
  const size_t most = link_.arena().slot_bytes() / 64 - 1;  // 64 bytes of each node must fit a slot
  check(buffers.nodes.size() <= most, "all_reduce_tree \"{}\": {} nodes on rank {}, expected at most {}",
        call.name, buffers.nodes.size(), rank(), most);
  call.place = call.collective == Collective::share ? regions_.place_for_others(buffers.memory.get())
                                                    : place_of(call, buffers);
  std::string name = call.name;
  return queue_.start(
      std::move(name),
      [this, call = std::move(call), buffers = std::move(buffers)] {
        run(call, buffers);
        traffic_.add(call.collective, direct_bytes(call, buffers, rank(), size()));
      },
      how);
}

void SlotGroup::run(const Call& call, const Buffers& buffers) {
  const auto* in = static_cast<const std::byte*>(buffers.in);
  auto* out = static_cast<std::byte*>(buffers.out);
  switch (call.collective) {
    case Collective::barrier:
      return run(call, PieceSteps{});
    case Collective::all_reduce:
      return run_all_reduce(call, out);
    case Collective::all_reduce_tree:
      return run_all_reduce_tree(call, buffers.nodes, static_cast<float*>(buffers.out));
    case Collective::all_gather:
      return run_all_gather(call, in, out);
    case Collective::reduce_scatter:
      return run_reduce_scatter(call, in, out);
    case Collective::broadcast:
      return run_broadcast(call, out);
    case Collective::all_to_all:
      return run_all_to_all(call, in, out);
    case Collective::all_to_all_v:
      return run_all_to_all_v(call, buffers.send_counts, buffers.recv_counts, in, out);
    case Collective::reduce:
      return run_reduce(call, in, out);
    case Collective::gather:
      return run_exchange(call, Exchange::to_root(size(), call.root, call.count), in, out);
    case Collective::scatter:
      return run_exchange(call, Exchange::from_root(size(), call.root, call.count), in, out);
    case Collective::share:
      return run_share(call, buffers.memory);
    case Collective::send:
    case Collective::recv:
      return;  // start() gives them to mail_
  }
}

// The failure that a body's exception becomes; it breaks the whole group.
GroupFailure SlotGroup::failure_of(const std::exception& error) {
  if (!link_.failure())
    link_.arena().fail(
        {GroupFailure::Kind::aborted, rank(),
         fmt::format("{}: {} failed: {}", link_.place(), link_.rank_text(rank()), error.what())});
  return *link_.failure();
}

// announce() detects ranks that ask for different sizes before anything is mapped. After the second event all ranks
// have mapped the region, so none is used that another rank could not map.
void SlotGroup::run_share(const Call& call, const std::shared_ptr<std::byte>& memory) {
  link_.begin(call);
  link_.announce();
  std::vector<uint64_t> places;
  for (int r = 0; r < size(); ++r) places.push_back(link_.place(r));
  regions_.add(memory, static_cast<size_t>(call.count), places);
  link_.await(link_.publish());
  link_.end();
}

// Of what the other ranks may read: `in`, and the result of a tree's sum.
SharedPlace SlotGroup::place_of(const Call& call, const Buffers& buffers) const {
  const BufferElements elements = elements_of(call, buffers, rank(), size());
  const bool is_tree = call.collective == Collective::all_reduce_tree;
  return regions_.place_of(is_tree ? buffers.out : buffers.in,
                           static_cast<size_t>(is_tree ? elements.out : elements.in) * size_of(call.dtype));
}

void SlotGroup::abort(const std::string& reason) {
  link_.arena().fail(
      {GroupFailure::Kind::aborted, rank(),
       fmt::format("{} aborted {}: {}", link_.rank_text(rank()), link_.options().text(), reason)});
}

}  // namespace athanor::comm::shm
