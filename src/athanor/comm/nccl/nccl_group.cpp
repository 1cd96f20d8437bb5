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

// run() traces device calls; the host group traces its own calls.
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
      queue_(options_, [this](const std::exception& error) { return failure_of(error, link_); }) {}

// The queue runs everything that was started before the host group tells the other ranks that this rank leaves.
NcclGroup::~NcclGroup() {
  queue_.finish();
  lanes_.clear();
}

std::string NcclGroup::place(const Call& call) const {
  return fmt::format("group '{}', {} on devices", name(), call.text());
}

bool NcclGroup::is_of_device(const Call& call, std::initializer_list<const void*> buffers) const {
  int on_device = 0, on_host = 0;
  for (const void* buffer : buffers)
    if (buffer != nullptr) ++(device_.queue.calls().is_of_device(buffer) ? on_device : on_host);
  check(on_device == 0 || on_host == 0,
        "{} \"{}\": got one buffer of the device and one of the host, expected both of one of them",
        name_of(call.collective), call.name);
  return on_device > 0;
}

Work NcclGroup::start(const Call& call, bool buffers, std::initializer_list<const void*> where,
                      std::function<Work(Group& host)> by_host, std::function<void()> by_device) {
  check_call(call, size(), buffers);
  if (call.count == 0 || !is_of_device(call, where)) return start_on_host(call.name, std::move(by_host));
  const auto event = std::make_shared<CudaEvent>(device_.queue);
  return queue_.start(call.name, [this, call, event, body = std::move(by_device)] {
    meet(call);
    run(call, *event, body);
  });
}

Work NcclGroup::start_on_host(const std::string& name, std::function<Work(Group& host)> step) {
  return queue_.start(name, [this, step = std::move(step)] { step(*host_).wait(); });
}

// The text truncates long names, so their hash is added.
void NcclGroup::meet(const Call& call) {
  host_->barrier(fmt::format("{} on devices, {:x}", call.text(), hash64(call.name)));
}

void NcclGroup::run(const Call& call, const CudaEvent& event, const std::function<void()>& body,
                    int64_t extra) {
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
    link_.finish(look_);
  } catch (const NcclError& error) {
    throw NcclError(fmt::format("{}: {}", place(call), error.what()));
  }
  traffic_.add(call.collective, direct_bytes(call, rank(), size(), extra));
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
  link.abort();
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
  return failure;
}

Work NcclGroup::all_reduce(void* data, int64_t count, Dtype dtype, const std::string& name) {
  return start(
      {Collective::all_reduce, dtype, -1, count, 0, name}, data != nullptr, {data},
      [=](Group& host) { return host.all_reduce(data, count, dtype, name); },
      [=, this] { run_all_reduce(data, count, dtype); });
}

Work NcclGroup::all_reduce_tree(std::vector<TreeNode> nodes, int64_t num_leaves, float* result, int64_t count,
                                const std::string& name) {
  const Call call{Collective::all_reduce_tree, Dtype::f32, -1, count, num_leaves, name};
  bool buffers = result != nullptr;
  for (const auto& node : nodes) buffers = buffers && node.data != nullptr;
  check_call(call, size(), buffers);
  bool of_device = count > 0 && is_of_device(call, {result});
  for (const auto& node : nodes) of_device = of_device && is_of_device(call, {result, node.data});
  if (!of_device)
    return start_on_host(name, [=, nodes = std::move(nodes)](Group& host) {
      return host.all_reduce_tree(nodes, num_leaves, result, count, name);
    });
  const auto event = std::make_shared<CudaEvent>(device_.queue);
  return queue_.start(name, [=, this, nodes = std::move(nodes)]() mutable {
    std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    meet(call);
    const SharedTree tree = share_nodes(nodes, num_leaves, place(call));
    run(
        call, *event, [&] { run_all_reduce_tree(tree, nodes, result, count); }, std::ssize(nodes));
  });
}

Work NcclGroup::all_gather(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name) {
  return start(
      {Collective::all_gather, dtype, -1, count, 0, name}, in != nullptr && out != nullptr, {in, out},
      [=](Group& host) { return host.all_gather(in, out, count, dtype, name); },
      [=, this] { run_all_gather(in, out, count, dtype); });
}

Work NcclGroup::reduce_scatter(const void* in, void* out, int64_t count, Dtype dtype,
                               const std::string& name) {
  return start(
      {Collective::reduce_scatter, dtype, -1, count, 0, name}, in != nullptr && out != nullptr, {in, out},
      [=](Group& host) { return host.reduce_scatter(in, out, count, dtype, name); },
      [=, this] { run_reduce_scatter(in, out, count, dtype); });
}

Work NcclGroup::all_to_all(const void* in, void* out, int64_t count, Dtype dtype, const std::string& name) {
  return start(
      {Collective::all_to_all, dtype, -1, count, 0, name}, in != nullptr && out != nullptr, {in, out},
      [=](Group& host) { return host.all_to_all(in, out, count, dtype, name); },
      [=, this] { run_all_to_all(in, out, count, dtype); });
}

// The ranks first exchange their counts and whether their rows are on the device; a rank without rows says `nowhere`.
Work NcclGroup::all_to_all_v(const void* in, std::span<const int64_t> send_counts, void* out,
                             std::span<const int64_t> recv_counts, Dtype dtype, const std::string& name) {
  const Call call{Collective::all_to_all_v, dtype, -1, 0, 0, name};
  const int64_t sent = check_counts(call, send_counts, size(), in != nullptr);
  const int64_t received = check_counts(call, recv_counts, size(), out != nullptr);
  enum Place : int64_t { nowhere, on_host, on_device };
  Place place_here = nowhere;
  if (sent + received > 0)
    place_here =
        is_of_device(call, {sent > 0 ? in : nullptr, received > 0 ? out : nullptr}) ? on_device : on_host;
  std::vector<int64_t> row(send_counts.begin(), send_counts.end());
  row.insert(row.end(), recv_counts.begin(), recv_counts.end());
  row.push_back(place_here);
  const auto event = std::make_shared<CudaEvent>(device_.queue);
  return queue_.start(name, [=, this, row = std::move(row)] {
    const auto n = static_cast<size_t>(size());
    std::vector<int64_t> rows(n * row.size()), all_sent, all_received;
    meet(call);
    host_->all_gather(row.data(), rows.data(), std::ssize(row), Dtype::i64, "counts of " + name).wait();
    bool is_on_host = false, is_on_device = false;
    for (auto at = rows.begin(); at != rows.end(); at += std::ssize(row)) {
      all_sent.insert(all_sent.end(), at, at + size());
      all_received.insert(all_received.end(), at + size(), at + 2 * size());
      is_on_host = is_on_host || at[2 * size()] == on_host;
      is_on_device = is_on_device || at[2 * size()] == on_device;
    }
    const std::string difference = compare_counts(all_sent, all_received, size());
    check(difference.empty(), "group '{}', {}: {}", this->name(), call.text(), difference);
    check(!(is_on_host && is_on_device), "{}: some ranks have their rows on a device and some on the host",
          place(call));
    const std::span<const int64_t> to(row.data(), n), from(row.data() + n, n);
    if (!is_on_device) return host_->all_to_all_v(in, to, out, from, dtype, name).wait();
    run(
        call, *event, [&] { run_all_to_all_v(in, to, out, from, dtype); },
        sent - to[static_cast<size_t>(rank())]);
  });
}

Work NcclGroup::broadcast(void* data, int64_t count, Dtype dtype, int root, const std::string& name) {
  return start(
      {Collective::broadcast, dtype, root, count, 0, name}, data != nullptr, {data},
      [=](Group& host) { return host.broadcast(data, count, dtype, root, name); },
      [=, this] { run_broadcast(data, count, dtype, root); });
}

Work NcclGroup::reduce(const void* in, void* out, int64_t count, Dtype dtype, int root,
                       const std::string& name) {
  const bool is_root = rank() == root;
  return start(
      {Collective::reduce, dtype, root, count, 0, name}, in != nullptr && (!is_root || out != nullptr),
      {in, is_root ? out : nullptr},
      [=](Group& host) { return host.reduce(in, out, count, dtype, root, name); },
      [=, this] { run_reduce(in, out, count, dtype, root); });
}

Work NcclGroup::gather(const void* in, void* out, int64_t count, Dtype dtype, int root,
                       const std::string& name) {
  const bool is_root = rank() == root;
  return start(
      {Collective::gather, dtype, root, count, 0, name}, in != nullptr && (!is_root || out != nullptr),
      {in, is_root ? out : nullptr},
      [=](Group& host) { return host.gather(in, out, count, dtype, root, name); },
      [=, this] { run_gather(in, out, count, dtype, root); });
}

Work NcclGroup::scatter(const void* in, void* out, int64_t count, Dtype dtype, int root,
                        const std::string& name) {
  const bool is_root = rank() == root;
  return start(
      {Collective::scatter, dtype, root, count, 0, name}, out != nullptr && (!is_root || in != nullptr),
      {out, is_root ? in : nullptr},
      [=](Group& host) { return host.scatter(in, out, count, dtype, root, name); },
      [=, this] { run_scatter(in, out, count, dtype, root); });
}

void NcclGroup::barrier(const std::string& name) {
  start_on_host(name, [name](Group& host) {
    host.barrier(name);
    return Work();
  }).wait();
}

std::shared_ptr<std::byte> NcclGroup::allocate_shared(size_t size_bytes, const std::string& name) {
  const Call call{Collective::allocate_shared, Dtype::u8, -1, as_count(size_bytes), 0, name};
  check_call(call, size(), true);
  CudaQueue& queue = device_.queue;
  std::optional<Slab> slab = size_bytes == 0 ? Slab{} : queue.allocate(size_bytes);
  barrier(call.text());
  if (!slab) throw IoError(fmt::format("{}: the device has no more memory", place(call)), ENOMEM);
  if (size_bytes == 0) return nullptr;
  queue.clear(slab->data, size_bytes);
  return {slab->data, [&queue, whole = *slab](std::byte*) { queue.release(whole); }};
}

Traffic NcclGroup::traffic() const {
  Traffic all = host_->traffic();
  all += traffic_.traffic();
  return all;
}

}  // namespace athanor::comm::nccl
