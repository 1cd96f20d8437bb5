#include "athanor/comm/network/network_group.h"

#include <utility>

#include "athanor/base/check.h"

namespace athanor::comm::network {

WireGroup::WireGroup(std::shared_ptr<Wire> wire, std::vector<int> members, const WireGroupIds& ids,
                     GroupOptions options, std::shared_ptr<void> alive)
    : alive_(std::move(alive)),
      link_(std::move(wire), std::move(members), ids, std::move(options)),
      data_channel_(link_.channel("data")),
      sent_to_(static_cast<size_t>(link_.size())),
      received_from_(static_cast<size_t>(link_.size())),
      queue_(link_.options(), [this](const std::exception& error) { return link_.failure_of(error); }) {
  check(link_.size() >= 2, "group '{}': {} ranks, expected at least 2", name(), link_.size());
}

// The queue runs everything that was started; only then the other ranks are told that this rank leaves.
WireGroup::~WireGroup() {
  queue_.finish();
  link_.leave();
}

Work WireGroup::start(Call call, Buffers buffers, Start how) {
  if (call.collective == Collective::send || call.collective == Collective::recv)
    return start_message(call, buffers);
  std::string name = call.name;
  return queue_.start(
      std::move(name),
      [this, call = std::move(call), buffers = std::move(buffers)] {
        link_.begin(call, std::ssize(buffers.nodes));
        run(call, buffers);
        link_.end();
      },
      how);
}

void WireGroup::run(const Call& call, const Buffers& buffers) {
  switch (call.collective) {
    case Collective::barrier:
    case Collective::share:
      return;
    case Collective::all_reduce_tree:
      run_all_reduce_tree(buffers.nodes, call.num_leaves, static_cast<float*>(buffers.out), call.count);
      return gather_slices(buffers.out, call.count, call.dtype);
    case Collective::all_to_all_v:
      check_counts_of_all(buffers.send_counts, buffers.recv_counts);
      break;
    default:
      break;
  }
  run_rows(call, buffers);
}

Traffic WireGroup::traffic() const {
  return link_.traffic().traffic();
}

void WireGroup::abort(const std::string& reason) {
  link_.abort(reason);
}

}  // namespace athanor::comm::network
