// The collectives of HierarchicalGroup as steps on its two levels. Here H hosts of n ranks; this is rank i of host h.
#include <cstring>
#include <numeric>

#include "athanor/comm/hierarchical/hierarchical.h"

namespace athanor::comm::hierarchical {

namespace {

size_t bytes_of_dtype(int64_t count, Dtype dtype) {
  return static_cast<size_t>(count) * size_of(dtype);
}

}  // namespace

void HierarchicalGroup::run(const Call& call, const Buffers& buffers) {
  const auto* in = static_cast<const std::byte*>(buffers.in);
  auto* out = static_cast<std::byte*>(buffers.out);
  const auto wait_in = [&](Group& group) { group.barrier(call.name); };
  switch (call.collective) {
    case Collective::barrier:  // after the inner one all ranks of a host have arrived
      inside(wait_in);
      return across(wait_in);
    case Collective::share:
      inside([&](Group& group) { group.share(buffers.memory, static_cast<size_t>(call.count), call.name); });
      return across(wait_in);
    case Collective::all_reduce:
      return run_all_reduce(out, call.count, call.dtype, call.name);
    case Collective::all_reduce_tree:
      return run_all_reduce_tree(buffers.nodes, call.num_leaves, static_cast<float*>(buffers.out), call.count,
                                 call.name);
    case Collective::all_gather:
      return run_all_gather(in, out, call.count, call.dtype, call.name);
    case Collective::reduce_scatter:
      return run_reduce_scatter(in, out, call.count, call.dtype, call.name);
    case Collective::all_to_all:
      return run_all_to_all(in, out, call.count, call.dtype, call.name);
    case Collective::all_to_all_v:
      return run_all_to_all_v(in, buffers.send_counts, out, buffers.recv_counts, call.dtype, call.name);
    default:
      return run_rooted(call, in, out);
  }
}

// The remainder that n does not divide goes through the first rank of each host, so that each element is sent between
// hosts once.
void HierarchicalGroup::run_all_reduce(std::byte* data, int64_t count, Dtype dtype, const std::string& name) {
  const int64_t n = inner_->size(), each = count / n, rest = count - each * n;
  if (each > 0 || rest == 0) {
    std::byte* shard = data + bytes_of_dtype(inner_->rank() * each, dtype);
    inside([&](Group& group) { group.reduce_scatter(data, shard, each, dtype, name).wait(); });
    across([&](Group& group) { group.all_reduce(shard, each, dtype, name).wait(); });
    inside([&](Group& group) { group.all_gather(shard, data, each, dtype, name).wait(); });
  }
  if (rest > 0) {
    std::byte* tail = data + bytes_of_dtype(each * n, dtype);
    inside([&](Group& group) { group.reduce(tail, tail, rest, dtype, 0, name).wait(); });
    if (inner_->rank() == 0) across([&](Group& group) { group.all_reduce(tail, rest, dtype, name).wait(); });
    inside([&](Group& group) { group.broadcast(tail, rest, dtype, 0, name).wait(); });
  }
}

// First all-gathers the rows of rank i of all hosts between hosts, then the rows of all ranks within each host.
void HierarchicalGroup::run_all_gather(const std::byte* in, std::byte* out, int64_t count, Dtype dtype,
                                       const std::string& name) {
  const int hosts = outer_->size();
  const size_t row = bytes_of_dtype(count, dtype), host_row = row * static_cast<size_t>(inner_->size());
  staging_.resize(row * static_cast<size_t>(hosts));
  across([&](Group& group) { group.all_gather(in, staging_.data(), count, dtype, name).wait(); });
  for (size_t h = 0; h < static_cast<size_t>(hosts); ++h)
    inside([&](Group& group) {
      group.all_gather(staging_.data() + h * row, out + h * host_row, count, dtype, name).wait();
    });
}

void HierarchicalGroup::run_reduce_scatter(const std::byte* in, std::byte* out, int64_t count, Dtype dtype,
                                           const std::string& name) {
  const int hosts = outer_->size();
  const size_t row = bytes_of_dtype(count, dtype), host_row = row * static_cast<size_t>(inner_->size());
  staging_.resize(row * static_cast<size_t>(hosts));
  for (size_t h = 0; h < static_cast<size_t>(hosts); ++h)
    inside([&](Group& group) {
      group.reduce_scatter(in + h * host_row, staging_.data() + h * row, count, dtype, name).wait();
    });
  across([&](Group& group) { group.reduce_scatter(staging_.data(), out, count, dtype, name).wait(); });
}

// A row goes first to the rank of this host that has the receiver's number, then from there to the receiver's host.
void HierarchicalGroup::run_all_to_all(const std::byte* in, std::byte* out, int64_t count, Dtype dtype,
                                       const std::string& name) {
  const int hosts = outer_->size(), n = inner_->size();
  const size_t host_row = bytes_of_dtype(count * n, dtype);
  staging_.resize(host_row * static_cast<size_t>(hosts));
  for (size_t h = 0; h < static_cast<size_t>(hosts); ++h)
    inside([&](Group& group) {
      group.all_to_all(in + h * host_row, staging_.data() + h * host_row, count, dtype, name).wait();
    });
  across([&](Group& group) { group.all_to_all(staging_.data(), out, count * n, dtype, name).wait(); });
}

void HierarchicalGroup::run_all_to_all_v(const std::byte* in, const std::vector<int64_t>& send_counts,
                                         std::byte* out, const std::vector<int64_t>& recv_counts, Dtype dtype,
                                         const std::string& name) {
  const auto hosts = static_cast<size_t>(outer_->size()), n = static_cast<size_t>(inner_->size());
  // [hosts, n]: how much rank s of this host sends to the rank with this rank's number on each host.
  std::vector<int64_t> passing(hosts * n);
  for (size_t h = 0; h < hosts; ++h)
    inside([&](Group& group) {
      group.all_to_all(&send_counts[h * n], &passing[h * n], 1, Dtype::i64, name).wait();
    });
  const auto sum = [&](const std::vector<int64_t>& counts, size_t h) {
    const auto first = counts.begin() + static_cast<std::ptrdiff_t>(h * n);
    return std::accumulate(first, first + static_cast<std::ptrdiff_t>(n), int64_t{0});
  };
  staging_.resize(bytes_of_dtype(std::accumulate(passing.begin(), passing.end(), int64_t{0}), dtype) + 1);
  std::vector<int64_t> to_hosts(hosts), from_hosts(hosts);
  std::byte* passed = staging_.data();
  for (size_t h = 0; h < hosts; ++h) {
    inside([&](Group& group) {
      group
          .all_to_all_v(in, std::span(send_counts).subspan(h * n, n), passed,
                        std::span(passing).subspan(h * n, n), dtype, name)
          .wait();
    });
    to_hosts[h] = sum(passing, h);
    from_hosts[h] = sum(recv_counts, h);
    in += bytes_of_dtype(sum(send_counts, h), dtype);
    passed += bytes_of_dtype(to_hosts[h], dtype);
  }
  across([&](Group& group) {
    group.all_to_all_v(staging_.data(), to_hosts, out, from_hosts, dtype, name).wait();
  });
}

// Between hosts, the rank with the root's number acts for its host.
void HierarchicalGroup::run_rooted(const Call& call, const std::byte* in, std::byte* out) {
  const int n = inner_->size(), host = call.root / n, number = call.root % n;
  const bool acts = inner_->rank() == number, there = outer_->rank() == host;
  const int64_t count = call.count;
  const Dtype dtype = call.dtype;
  const std::string& name = call.name;
  const bool is_root = acts && there;
  if (acts)
    staging_.resize(bytes_of_dtype(call.collective == Collective::reduce ? count : count * n, dtype) + 1);
  std::byte* passing = staging_.data();  // on the acting rank: what its host sends or receives
  switch (call.collective) {
    case Collective::broadcast:
      if (acts) across([&](Group& group) { group.broadcast(out, count, dtype, host, name).wait(); });
      inside([&](Group& group) { group.broadcast(out, count, dtype, number, name).wait(); });
      break;
    case Collective::reduce:
      inside([&](Group& group) { group.reduce(in, passing, count, dtype, number, name).wait(); });
      if (acts) across([&](Group& group) { group.reduce(passing, out, count, dtype, host, name).wait(); });
      break;
    case Collective::gather:
      inside([&](Group& group) { group.gather(in, passing, count, dtype, number, name).wait(); });
      if (acts)
        across([&](Group& group) { group.gather(passing, out, count * n, dtype, host, name).wait(); });
      break;
    default:  // scatter
      if (acts)
        across([&](Group& group) {
          group.scatter(is_root ? in : nullptr, passing, count * n, dtype, host, name).wait();
        });
      inside([&](Group& group) { group.scatter(passing, out, count, dtype, number, name).wait(); });
  }
}

}  // namespace athanor::comm::hierarchical
