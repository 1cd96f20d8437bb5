// A group that does one thing wrong, alike on every rank: how tests plant faults in a layout without touching it.
//
//   const auto faulty = [](Group& group) { return FaultyGroup(group, {.call = "gradients", .skipped = true}); };
//   {.groups = [&](Groups& groups) { groups.context = keep(*groups.context); }}
//
// The fault befalls the calls whose names begin with `call`: reductions that are `skipped` leave what is there, and
// `change` alters what arrives of a collective, or what a message takes along; `in_wait` is what happens while somebody
// waits for a collective. All else is the real group's. It outlives what is started on it. Thread rule: that of the
// group.
#pragma once

#include <algorithm>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "athanor/comm/group.h"

namespace athanor::tests {

struct GroupFault {
  std::string call;
  bool skipped = false;
  std::function<void(std::span<std::byte> data, size_t element_bytes)> change = {};
  std::function<void(const std::string& name)> in_wait = {};
};

class FaultyGroup final : public Group {
 public:
  FaultyGroup(Group& real, GroupFault fault) : real_(real), fault_(std::move(fault)), rank_(real.rank()) {}
  void pretend(int rank) { rank_ = rank; }  // to be another rank, from now on
  void be_oneself() { rank_ = real_.rank(); }

  int rank() const override { return rank_; }
  int size() const override { return real_.size(); }
  const std::string& name() const override { return real_.name(); }
  Work start(Call call, Buffers buffers, Start how) override {
    const std::string name = call.name;
    if (!name.starts_with(fault_.call)) return real_.start(std::move(call), std::move(buffers), how);
    const size_t element = size_of(call.dtype);
    if (call.collective == Collective::send) {
      if (fault_.change) {
        const auto* bytes = static_cast<const std::byte*>(buffers.in);
        sent_.emplace_back(bytes, bytes + static_cast<size_t>(call.count) * element);
        fault_.change(sent_.back(), element);
        buffers.in = sent_.back().data();
      }
      return real_.start(std::move(call), std::move(buffers), how);
    }
    if (call.collective == Collective::recv || call.collective == Collective::barrier ||
        call.collective == Collective::share)
      return real_.start(std::move(call), std::move(buffers), how);
    const bool is_sum =
        call.collective == Collective::all_reduce || call.collective == Collective::all_reduce_tree;
    if (fault_.skipped && is_sum) return {};
    const auto elements = static_cast<size_t>(elements_of(call, buffers, rank_, size()).out);
    const std::span arrived(static_cast<std::byte*>(buffers.out), elements * element);
    Work work = real_.start(std::move(call), std::move(buffers), how);
    if (fault_.in_wait)
      return Work(std::make_shared<Waited>(std::move(work), [this, name] { fault_.in_wait(name); }));
    if (!fault_.change || arrived.empty()) return work;
    work.wait();
    fault_.change(arrived, element);
    return {};
  }
  Traffic traffic() const override { return real_.traffic(); }
  void throw_if_broken() override { real_.throw_if_broken(); }
  void abort(const std::string& reason) override { real_.abort(reason); }

 private:
  struct Waited : Work::Impl {
    Waited(Work real, std::function<void()> hook) : work(std::move(real)), in_wait(std::move(hook)) {}
    void wait() override {
      work.wait();
      in_wait();
    }
    bool done() const override { return work.done(); }
    Work work;
    std::function<void()> in_wait;
  };

  Group& real_;
  GroupFault fault_;
  int rank_;
  std::list<std::vector<std::byte>> sent_;  // messages are read until they are done
};

// Changes: as if the data began so many elements, or that part of it, later.
inline auto rotated_by(size_t elements) {
  return [elements](std::span<std::byte> data, size_t element_bytes) {
    const size_t by = data.empty() ? 0 : elements * element_bytes % data.size();
    std::rotate(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(by), data.end());
  };
}
inline void halves_swapped(std::span<std::byte> data, size_t) {
  std::rotate(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(data.size() / 2), data.end());
}
inline void zeroed(std::span<std::byte> data, size_t) {
  std::fill(data.begin(), data.end(), std::byte{0});
}

}  // namespace athanor::tests
