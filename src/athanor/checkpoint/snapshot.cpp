#include "athanor/checkpoint/snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/checkpoint/rank_lists.h"
#include "athanor/checkpoint/slices.h"

namespace athanor::checkpoint {
namespace {

constexpr const char* kCall = "snapshot";

// A box of a tensor that a rank reads.
struct Wish {
  size_t tensor;  // of SlicePlan::tensors
  Box box;
};

// Elements that a rank gets from another one.
struct Request {
  size_t slice;  // of SlicePlan::slices
  Box box;
};

std::string pack(const std::vector<Request>& requests) {
  Packer packer;
  for (const Request& request : requests) {
    packer.number(static_cast<int64_t>(request.slice));
    packer.box(request.box);
  }
  return packer.text();
}

std::vector<Request> unpack(const std::string& text) {
  std::vector<Request> requests;
  for (Unpacker unpacker(text); !unpacker.at_end();) {
    Request request{.slice = static_cast<size_t>(unpacker.number()), .box = {}};
    request.box = unpacker.box();
    requests.push_back(std::move(request));
  }
  return requests;
}

// What all ranks keep, and where.
class Kept {
 public:
  Kept(Group& group, const Snapshot& snapshot) : plan_(plan_slices(group, snapshot.tensors())) {
    for (size_t i = 0; i < plan_.tensors.size(); ++i) tensor_of_.emplace(plan_.tensors[i].name, i);
    slices_of_.resize(plan_.tensors.size());
    for (size_t i = 0; i < plan_.slices.size(); ++i) slices_of_[plan_.slices[i].tensor].push_back(i);
    here_.resize(plan_.slices.size());
    for (const NamedTensor& named : snapshot.tensors())
      for (const size_t slice : slices_of_[tensor_of_.at(named.name)])
        if (box(slice) == named.box()) here_[slice] = named.tensor.data<float>();
  }
  std::optional<size_t> find(const std::string& name) const {
    const auto found = tensor_of_.find(name);
    return found == tensor_of_.end() ? std::nullopt : std::optional(found->second);
  }
  const Shape& shape(size_t tensor) const { return plan_.tensors[tensor].shape; }
  const std::vector<size_t>& slices(size_t tensor) const { return slices_of_[tensor]; }
  const Box& box(size_t slice) const {
    const SlicePlan::Slice& s = plan_.slices[slice];
    return plan_.tensors[s.tensor].slices[s.slice].box;
  }
  const Shape& whole(size_t slice) const { return shape(plan_.slices[slice].tensor); }
  int sender(size_t slice) const { return plan_.slices[slice].writer; }
  const float* here(size_t slice) const { return here_[slice]; }  // null: other ranks keep it

 private:
  SlicePlan plan_;
  std::map<std::string, size_t, std::less<>> tensor_of_;
  std::vector<std::vector<size_t>> slices_of_;
  std::vector<const float*> here_;
};

// The snapshot as a source: what is derived says what becomes of a box.
class KeptSource : public TensorSource {
 public:
  KeptSource(const Kept& kept, int64_t step) : kept_(kept), step_(step) {}
  std::string text() const override { return fmt::format("the snapshot of step {}", step_); }
  bool has(const std::string& name) const override { return kept_.find(name).has_value(); }
  const Shape& shape_of(const std::string& name) const override { return kept_.shape(at(name)); }
  void read_box(const std::string& name, const Shape& expected, const Box& box,
                float* values) const override {
    const size_t tensor = at(name);
    const Shape& shape = kept_.shape(tensor);
    check(shape == expected, "{}: tensor '{}': got {}, expected {}", text(), name, shape, expected);
    check(is_inside(box, shape), "{}: tensor '{}': got a box of {} at {}, expected it inside of {}", text(),
          name, box.extent, box.offset, shape);
    take({tensor, box}, values);
  }

 protected:
  virtual void take(const Wish& wish, float* values) const = 0;
  const Kept& kept() const { return kept_; }

 private:
  size_t at(const std::string& name) const {
    const auto tensor = kept_.find(name);
    check(tensor.has_value(), "{}: the tensor '{}' is missing", text(), name);
    return *tensor;
  }
  const Kept& kept_;
  int64_t step_;
};

// Notes the parts of boxes that other ranks keep.
class Asking final : public KeptSource {
 public:
  using KeptSource::KeptSource;
  const std::vector<Request>& requests() const { return requests_; }

 private:
  void take(const Wish& wish, float* values) const override {
    std::fill_n(values, wish.box.extent.numel(), 0.0f);
    for (const size_t slice : kept().slices(wish.tensor))
      if (kept().here(slice) == nullptr)
        if (const auto part = shared_box(kept().box(slice), wish.box)) requests_.push_back({slice, *part});
  }
  mutable std::vector<Request> requests_;
};

// Gives the boxes, in the order in which they were asked for.
class Giving final : public KeptSource {
 public:
  Giving(const Kept& kept, int64_t step, const std::vector<Request>& requests,
         std::vector<const float*> parts)
      : KeptSource(kept, step), requests_(requests), parts_(std::move(parts)) {}

 private:
  void take(const Wish& wish, float* values) const override {
    const Shape& whole = kept().shape(wish.tensor);
    for (const size_t slice : kept().slices(wish.tensor)) {
      const Box& box = kept().box(slice);
      const auto part = shared_box(box, wish.box);
      if (!part) continue;
      if (const float* here = kept().here(slice)) {
        copy_shared(whole, box, here, wish.box, values);
        continue;
      }
      check(next_ < requests_.size() && requests_[next_].slice == slice && requests_[next_].box == *part,
            "{}: it was read in another order the second time", text());
      copy_shared(whole, *part, parts_[next_++], wish.box, values);
    }
  }
  const std::vector<Request>& requests_;
  std::vector<const float*> parts_;  // of each request: its values
  mutable size_t next_ = 0;
};

// Sends what others ask for. Returns the values of `requests`, sorted by rank, and sets where each begins.
Tensor exchange(Group& group, const Kept& kept, const std::vector<Request>& requests, Arena& arena,
                std::vector<const float*>& parts) {
  const std::vector<std::string> texts = gather_texts(group, pack(requests), kCall);
  const auto ranks = static_cast<size_t>(group.size());
  std::vector<int64_t> send_counts(ranks), recv_counts(ranks);
  std::vector<std::vector<Request>> asked(ranks);  // of this rank, by each rank
  for (size_t rank = 0; rank < ranks; ++rank)
    for (Request& request : unpack(texts[rank]))
      if (kept.sender(request.slice) == group.rank()) {
        send_counts[rank] += request.box.extent.numel();
        asked[rank].push_back(std::move(request));
      }
  for (const Request& request : requests)
    recv_counts[static_cast<size_t>(kept.sender(request.slice))] += request.box.extent.numel();
  const auto buffer_of = [&](const std::vector<int64_t>& counts) {
    int64_t sum = 0;
    for (const int64_t count : counts) sum += count;
    return empty(arena, {std::max<int64_t>(sum, 1)}, Dtype::f32, Category::snapshot);
  };
  const Tensor sent = buffer_of(send_counts), received = buffer_of(recv_counts);
  float* next = sent.data<float>();
  for (const std::vector<Request>& list : asked)
    for (const Request& request : list) {
      copy_shared(kept.whole(request.slice), kept.box(request.slice), kept.here(request.slice), request.box,
                  next);
      next += request.box.extent.numel();
    }
  group.all_to_all_v(sent.data<float>(), send_counts, received.data<float>(), recv_counts, Dtype::f32, kCall)
      .wait();
  std::vector<const float*> from(ranks, received.data<float>());
  for (size_t rank = 1; rank < ranks; ++rank) from[rank] = from[rank - 1] + recv_counts[rank - 1];
  for (const Request& request : requests) {
    const float*& begin = from[static_cast<size_t>(kept.sender(request.slice))];
    parts.push_back(begin);
    begin += request.box.extent.numel();
  }
  return received;
}

}  // namespace

Snapshot::Snapshot(const CheckpointContent& content, Arena& arena) : head_{content.step, content.state} {
  const bool moves = arena.queue().device() != Device::null;
  for (const NamedTensor& named : content.tensors) {
    const Shape& shape = named.shape();
    NamedTensor kept{.name = named.name, .tensor = empty(arena, shape, Dtype::f32, Category::snapshot)};
    if (named.offset.dims() > 0) {
      kept.whole = named.whole;
      kept.offset = named.offset;
    }
    if (moves) named.copy(0, shape.numel(), kept.tensor.data<float>());
    tensors_.push_back(std::move(kept));
  }
}

void Snapshot::add(const SlotReader& slot, Arena& arena) {
  check(head_.step < 0 || head_.step == slot.step(), "snapshot: got a slot of step {}, expected step {}",
        slot.step(), head_.step);
  head_ = {slot.step(), slot.state()};
  std::unordered_map<std::string, std::vector<Box>> there;
  for (const NamedTensor& named : tensors_) there[named.name].push_back(named.box());
  for (const PlacedTensor& placed : slot.tensors()) {
    const SlotTensor& held = placed.tensor;
    check(held.dtype == Dtype::f32, "snapshot: tensor '{}': got {}, expected f32", held.name,
          name_of(held.dtype));
    const auto* values = reinterpret_cast<const float*>(slot.data(placed));
    for (const Box& box : held.boxes) {
      const int64_t count = box.extent.numel();
      std::vector<Box>& boxes = there[held.name];
      if (std::find(boxes.begin(), boxes.end(), box) == boxes.end()) {
        boxes.push_back(box);
        NamedTensor kept{.name = held.name,
                         .tensor = empty(arena, box.extent, Dtype::f32, Category::snapshot),
                         .whole = held.shape,
                         .offset = box.offset};
        std::memcpy(kept.tensor.raw(), values, kept.tensor.size_bytes());
        tensors_.push_back(std::move(kept));
      }
      values += count;
    }
  }
}

SnapshotHead common_head(Group& group, const SnapshotHead& own) {
  Packer packer;
  packer.number(own.step);
  packer.name(own.state);
  SnapshotHead head;
  int of = -1;
  const std::vector<std::string> texts = gather_texts(group, packer.text(), kCall);
  for (int rank = 0; rank < group.size(); ++rank) {
    Unpacker unpacker(texts[static_cast<size_t>(rank)]);
    const int64_t step = unpacker.number();
    if (step < 0) continue;
    const std::string state = unpacker.name();
    check(of < 0 || step == head.step, "snapshot: rank {} keeps step {}, rank {} step {}", of, head.step,
          rank, step);
    check(of < 0 || state == head.state, "snapshot: ranks {} and {} keep different states of step {}", of,
          rank, step);
    head = {step, state};
    of = rank;
  }
  check(of >= 0, "snapshot: no rank keeps one");
  return head;
}

SnapshotHead load_snapshot(Group& group, const Snapshot& snapshot, Arena& arena,
                           const std::function<void(const TensorSource& source)>& load) {
  const SnapshotHead head = common_head(group, snapshot.head());
  const Kept kept(group, snapshot);
  Asking asking(kept, head.step);
  load(asking);
  std::vector<const float*> parts;
  const Tensor received = exchange(group, kept, asking.requests(), arena, parts);
  load(Giving(kept, head.step, asking.requests(), std::move(parts)));
  return head;
}

std::optional<CommonStep> common_step(Group& group, const std::vector<HeldPart>& own) {
  Packer packer;
  for (const HeldPart& held : own) {
    packer.number(held.part.generation);
    packer.number(held.part.rank);
    packer.number(held.part.size);
    packer.number(std::ssize(held.steps));
    for (const int64_t step : held.steps) packer.number(step);
  }
  struct Generation {
    int64_t size = 0;
    std::map<int64_t, std::set<int64_t>> steps;  // by rank
  };
  std::map<int64_t, Generation, std::greater<>> generations;
  for (const std::string& text : gather_texts(group, packer.text(), "the newest steps"))
    for (Unpacker unpacker(text); !unpacker.at_end();) {
      Generation& generation = generations[unpacker.number()];
      std::set<int64_t>& steps = generation.steps[unpacker.number()];
      generation.size = unpacker.number();
      for (int64_t left = unpacker.number(); left > 0; --left) steps.insert(unpacker.number());
    }
  for (const auto& [number, generation] : generations) {
    if (std::ssize(generation.steps) < generation.size) continue;
    std::set<int64_t> common = generation.steps.begin()->second;
    for (const auto& [rank, steps] : generation.steps)
      std::erase_if(common, [&of_rank = steps](int64_t step) { return !of_rank.contains(step); });
    if (!common.empty()) return CommonStep{number, *common.rbegin()};
  }
  return std::nullopt;
}

}  // namespace athanor::checkpoint
