#include "athanor/comm/nccl/nccl_group.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "athanor/base/check.h"
#include "athanor/base/clock.h"
#include "athanor/base/hash.h"
#include "athanor/comm/nccl/nccl_stream.h"  // of the lanes that go with the group
#include "athanor/comm/tree.h"

namespace athanor::comm::nccl {

namespace {

// After an NCCL error: how long to wait for news of its cause. NCCL detects a rank's end before the host group names
// it.
constexpr int64_t kNcclReasonMs = 300;

// move() traces device calls; the host group traces its own calls.
GroupOptions without_traces(GroupOptions options) {
  options.on_done = nullptr;
  return options;
}

}  // namespace

NcclGroup::NcclGroup(std::unique_ptr<Group> host, const NcclDevice& device, const GroupOptions& options)
    : host_(std::move(host)),
      device_(device),
      options_(without_traces(options)),
      on_done_(options.on_done),
      link_(device, host_->rank(), host_->size()),
      self_link_(device, 0, 1),
      queue_(
          options_, [this](const std::exception& error) { return failure_of(error, link_); },
          [this](Queue& queue) { link_.let_wait(queue); }) {}

// The queue runs everything that was started before the host group tells the other ranks that this rank leaves.
NcclGroup::~NcclGroup() {
  queue_.finish();
  lanes_.clear();
}

std::string NcclGroup::place(const Call& call) const {
  return fmt::format("{}, {} on devices", options_.text(), call.text());
}

bool NcclGroup::is_of_device(const Call& call, const Buffers& buffers) const {
  const BufferElements elements = elements_of(call, buffers, rank(), size());
  int on_device = 0, on_host = 0;
  const auto count = [&](const void* buffer) {
    ++(device_.queue.calls().is_of_device(buffer) ? on_device : on_host);
  };
  if (elements.in > 0) count(buffers.in);
  if (elements.out > 0) count(buffers.out);
  for (const TreeNode& node : buffers.nodes)
    if (call.count > 0) count(node.data);
  check(on_device == 0 || on_host == 0,
        "{} \"{}\": got one buffer of the device and one of the host, expected both of one of them",
        name_of(call.collective), call.name);
  return on_device > 0;
}

Work NcclGroup::start(Call call, Buffers buffers, Start how) {
  if (call.collective == Collective::send || call.collective == Collective::recv)
    return start_message(call, buffers, how);
  if (call.collective == Collective::share) {  // a device's memory is its own
    if (device_.queue.calls().is_of_device(buffers.memory.get())) buffers.memory.reset();
    return host_->start(std::move(call), std::move(buffers), how);
  }
  const bool has_counts = call.collective == Collective::all_to_all_v;
  std::string name = call.name;
  if (!is_of_device(call, buffers) && !has_counts)
    return queue_.start(
        std::move(name),
        [this, call = std::move(call), buffers = std::move(buffers)] {
          host_->start(call, buffers, Start::at_once).wait();
        },
        how);
  const auto event = std::make_shared<CudaEvent>(device_.queue);
  return queue_.start(
      std::move(name),
      [this, has_counts, call = std::move(call), buffers = std::move(buffers), event] {
        meet(call);
        if (has_counts)
          run_all_to_all_v(call, buffers, *event);
        else
          run(call, buffers, *event);
      },
      how);
}

void NcclGroup::run(const Call& call, const Buffers& buffers, const CudaEvent& event) {
  if (call.collective != Collective::all_reduce_tree)
    return move(call, buffers, event, [&] { run_rows(call, buffers); });
  std::vector<TreeNode> nodes = buffers.nodes;
  std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const SharedTree tree = share_nodes(nodes, call.num_leaves, place(call));
  move(call, buffers, event,
       [&] { run_all_reduce_tree(tree, nodes, static_cast<float*>(buffers.out), call.count); });
}

// The ranks first exchange their counts and whether their rows are on the device; a rank without rows says `nowhere`.
void NcclGroup::run_all_to_all_v(const Call& call, const Buffers& buffers, const CudaEvent& event) {
  enum Place : int64_t { nowhere, on_host, on_device };
  const BufferElements elements = elements_of(call, buffers, rank(), size());
  Place place_here = nowhere;
  if (elements.in + elements.out > 0) place_here = is_of_device(call, buffers) ? on_device : on_host;
  std::vector<int64_t> row = buffers.send_counts;
  row.insert(row.end(), buffers.recv_counts.begin(), buffers.recv_counts.end());
  row.push_back(place_here);
  std::vector<int64_t> rows(static_cast<size_t>(size()) * row.size()), all_sent, all_received;
  host_->all_gather(row.data(), rows.data(), std::ssize(row), Dtype::i64, "counts of " + call.name).wait();
  bool is_on_host = false, is_on_device = false;
  for (auto at = rows.begin(); at != rows.end(); at += std::ssize(row)) {
    all_sent.insert(all_sent.end(), at, at + size());
    all_received.insert(all_received.end(), at + size(), at + 2 * size());
    is_on_host = is_on_host || at[2 * size()] == on_host;
    is_on_device = is_on_device || at[2 * size()] == on_device;
  }
  const std::string difference = compare_counts(all_sent, all_received, size());
  check(difference.empty(), "{}, {}: {}", options_.text(), call.text(), difference);
  check(!(is_on_host && is_on_device), "{}: some ranks have their rows on a device and some on the host",
        place(call));
  if (!is_on_device) return host_->start(call, buffers, Start::at_once).wait();
  move(call, buffers, event, [&] { run_rows(call, buffers); });
}

// The text truncates long names, so their hash is added.
void NcclGroup::meet(const Call& call) {
  host_->barrier(fmt::format("{} on devices, {:x}", call.text(), hash64(call.name)));
}

void NcclGroup::move(const Call& call, const Buffers& buffers, const CudaEvent& event,
                     const std::function<void()>& body) {
  const int64_t start_ns = now_ns();
  look_ = look_out(place(call));
  try {
    if (size() > 1 && !link_.is_open()) {
      NcclLink::Id id{};
      if (rank() == 0) id = NcclLink::make_id(device_.nccl);
      host_->broadcast(id.data(), std::ssize(id), Dtype::u8, 0, "the id of NCCL's communicator").wait();
      link_.open(id, look_);
    }
    link_.wait_for(event);
    body();
    link_.mark();
    queue_.on_stream();
    link_.finish(look_);
  } catch (const NcclError& error) {
    throw NcclError(fmt::format("{}: {}", place(call), error.what()));
  }
  traffic_.add(call.collective, direct_bytes(call, buffers, rank(), size()));
  if (on_done_) on_done_(call.name, start_ns, now_ns());
}

NcclLink::Look NcclGroup::look_out(std::string what) const {
  return [this, what = std::move(what), start = options_.now_ns(),
          report = options_.late_ms * 1'000'000]() mutable {
    host_->throw_if_broken();
    const int64_t waited = options_.now_ns() - start;
    const double seconds = static_cast<double>(waited) * 1e-9;
    if (waited >= options_.timeout_ms * 1'000'000)
      throw Timeout(fmt::format("{}: timed out after {:.1f} s on rank {}, waiting for the data to move", what,
                                seconds, rank()));
    if (waited < report) return;
    report *= 2;
    if (options_.on_late)
      options_.on_late(
          fmt::format("{}: rank {} has waited {:.1f} s for the data to move", what, rank(), seconds));
  };
}

GroupFailure NcclGroup::failure_of(const std::exception& error, NcclLink& link) {
  GroupFailure failure = GroupFailure::of(error, rank());
  const bool is_nccls = dynamic_cast<const NcclError*>(&error) != nullptr;
  for (int64_t waited = 0; is_nccls && waited < kNcclReasonMs; waited += 10) {
    try {
      host_->throw_if_broken();
    } catch (const Failure& known) {
      failure = GroupFailure::of(known, rank());
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  host_->abort(failure.text);
  link.abort();  // lets queues go on that wait for the data: after that no call of the group succeeds
  return failure;
}

Traffic NcclGroup::traffic() const {
  Traffic all = host_->traffic();
  all += traffic_.traffic();
  return all;
}

}  // namespace athanor::comm::nccl
