#include "athanor/autograd/param.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "athanor/base/philox.h"
#include "athanor/kernels/table.h"

namespace athanor::autograd {

Tensor ValueSource::kept(const Param& param) {
  fail("param: '{}' is asked from a source that keeps no values", param.name());
}

namespace {
// Elements per task: small enough that threads get equal work even for the matrices of small models.
constexpr int64_t kBlock = 1 << 13;
int64_t num_blocks(int64_t numel) {
  return (numel + kBlock - 1) / kBlock;
}
}  // namespace

Weight::GradSlot Weight::grad_slot() {
  if (!grad_.defined() && source_ != nullptr) source_->need(*this);
  check(grad_.defined(), "weight: '{}' has no gradient buffer; is this model being trained?", use_);
  zero_elsewhere_ = false;
  rows_ = {};
  return {grad_, std::exchange(begun_, true)};
}

Tensor& Weight::grad() {
  const GradSlot slot = grad_slot();
  if (!slot.add) fill_zero(slot.tensor);
  return slot.tensor;
}

Tensor& Weight::grad_rows(const Tensor& ids) {
  if (begun_) return grad();                        // something else was added, perhaps to other rows
  if (!zero_elsewhere_ || rows_.defined()) grad();  // clears the slot
  begun_ = zero_elsewhere_ = true;
  rows_ = ids;
  return grad_;
}

void Weight::move_rows(Tensor& sum) {
  check(zero_elsewhere_, "weight: '{}' does not know the rows of its gradient", use_);
  if (rows_.defined()) kernels_of(sum).embedding.move_rows(sum.queue(), sum, grad_, rows_);
  rows_ = {};
}

void Weight::set_grad(Tensor slot) {
  if (!grad_.defined() || slot.raw() != grad_.raw()) {
    zero_elsewhere_ = false;
    rows_ = {};
  }
  grad_ = std::move(slot);
  begun_ = true;
}

void Weight::drop_grad() {
  grad_ = {};
  rows_ = {};
  zero_elsewhere_ = false;
}

Weight& Param::add_use(const std::string& use) {
  uses_.push_back(std::make_unique<Weight>(*this, use));
  return *uses_.back();
}

void Param::keep_uses(const std::function<bool(const std::string& use)>& here) {
  std::vector<std::unique_ptr<Weight>> kept;
  for (auto& use : uses_) (here(use->use()) ? kept : uses_elsewhere_).push_back(std::move(use));
  uses_ = std::move(kept);
}

void Param::keep(FlatRange range, Tensor kept, ValueSource* source) {
  check(
      0 <= range.first && range.first <= range.last && range.last <= numel() && kept.numel() == range.count(),
      "param: '{}' {}: cannot keep [{}, {}) in {}", name_, shape_, range.first, range.last, kept.shape());
  range_ = range;
  dtype_ = kept.dtype();
  kept_ = std::move(kept);
  source_ = source;
}

void Param::keep_elsewhere(FlatRange range, Dtype dtype, ValueSource* source) {
  range_ = range;
  dtype_ = dtype;
  source_ = source;
  elsewhere_ = true;
}

void Param::allocate(Arena& arena, Dtype dtype, bool with_master) {
  if (is_state_) dtype = Dtype::f32;
  if (whole()) {
    kept_ = value_ = empty(arena, shape_, dtype, Category::parameters);
    dtype_ = dtype;
  }
  check(dtype_ == dtype, "param: '{}' is kept as {}, expected {}", name_, name_of(dtype_), name_of(dtype));
  if (dtype == Dtype::f32) {
    master_ = kept_;
  } else if (with_master) {
    master_ = empty(arena, kept_shape(), Dtype::f32, Category::optimizer);
  }
}

void Param::shard(const Shard& shard) {
  check(!defined(), "param: '{}' has memory already, expected shard() before allocate()", name_);
  check(0 <= shard.rank && shard.rank < shard.size && 0 <= shard.copy && shard.copy < shard.copies,
        "param: '{}': got shard {} of {}, replica {} of {}", name_, shard.rank, shard.size, shard.copy,
        shard.copies);
  if (shard.size > 1) {
    check(shard.dim >= 0 && shard.dim < shape_.dims(), "param: '{}' {} has no dimension {}", name_, shape_,
          shard.dim);
    const int64_t length = shape_[shard.dim], part = (length + shard.size - 1) / shard.size;
    check(shard.dim == 0 || part * shard.size == length,
          "param: '{}': dimension {} of {} does not divide by {}", name_, shard.dim, shape_, shard.size);
    Shape shape, offset, extent;
    for (int d = 0; d < shape_.dims(); ++d) {
      const int64_t skipped = d == shard.dim ? std::min(box_.extent[d], shard.rank * part) : 0;
      shape.push_back(d == shard.dim ? part : shape_[d]);
      offset.push_back(box_.offset[d] + skipped);
      extent.push_back(d == shard.dim ? std::min(part, box_.extent[d] - skipped) : box_.extent[d]);
    }
    shape_ = shape;
    box_ = {offset, extent};
  }
  shards_.push_back(shard);
}

bool Param::is_first_copy() const {
  return std::all_of(shards_.begin(), shards_.end(), [](const Shard& shard) { return shard.copy == 0; });
}

Param::Part Param::part(int dim) const {
  Part part{0, 1};
  for (const Shard& shard : shards_)
    if (shard.size > 1 && shard.dim == dim)
      part = {part.rank * shard.size + shard.rank, part.size * shard.size};
  return part;
}

Tensor Param::unpadded(const Tensor& x) const {
  check(x.shape() == shape_, "param: '{}' {}: got {}", name_, shape_, x.shape());
  return is_padded() ? x.slice(0, box_.extent[0]) : x;
}

Tensor Param::floats() const {
  Tensor floats = master();
  return floats.defined() ? floats : empty(kept().arena(), kept_shape(), Dtype::f32, Category::workspace);
}

void Param::take_floats(const Tensor& master) {
  if (dtype_ != Dtype::f32) {
    Tensor values = kept();
    kernels_of(values).elementwise.cast(values.queue(), values, master);
  }
  if (masters_ != nullptr && master.queue().device_memory() == nullptr) {
    masters_->write_master(*this, master.data<float>());
  } else if (masters_ != nullptr) {
    std::vector<float> values(static_cast<size_t>(master.numel()));
    copy_to_host(values.data(), master, master.size_bytes());
    masters_->write_master(*this, values.data());
  }
  if (source_ != nullptr) source_->changed(*this);
}

void Param::keep_master(MasterStore* store) {
  check(defined() && !master_.defined(),
        "param: '{}' has no memory or a master already, expected an allocated parameter without one", name_);
  masters_ = store;
}

void Param::read_master(int64_t first, int64_t count, float* values) const {
  if (masters_ != nullptr) return masters_->read_master(*this, first, count, values);
  const Tensor part = master().flat(first, count);
  copy_to_host(values, part, part.size_bytes());
}

FlatRange Param::kept_elements() const {
  const FlatRange kept = range();
  const int64_t elements = box_.extent.numel();  // padding comes after them
  return {std::min(kept.first, elements), std::min(kept.last, elements)};
}

void Param::initialize(uint64_t seed) {
  Queue& queue = kept().queue();
  if (queue.device() == Device::null) return;
  const RandomStream stream(seed, name_);
  Tensor master = floats();
  if (is_padded()) fill_zero(master);
  const BoxRuns runs(whole_, box_);
  const FlatRange kept = kept_elements();
  // Writes the initial values of elements [first, last) to `out`.
  const auto fill = [&](float* out, int64_t first, int64_t last) {
    if (init_.kind != Init::Kind::normal) {
      std::fill(out, out + (last - first), init_.kind == Init::Kind::ones ? 1.0f : 0.0f);
      return;
    }
    runs.walk(kept.first + first, kept.first + last, [&](int64_t in_box, int64_t in_whole, int64_t length) {
      stream.fill_normal(out + in_box - kept.first - first, static_cast<uint64_t>(in_whole),
                         static_cast<uint64_t>(length), init_.std);
    });
  };
  const auto end_of = [&](int64_t first) { return std::min(first + kBlock, kept.count()); };
  if (queue.device_memory() != nullptr) {  // made on the host, block by block
    std::vector<float> values(kBlock);
    for (int64_t first = 0; first < kept.count(); first += kBlock) {
      Tensor block = master.flat(first, end_of(first) - first);
      fill(values.data(), first, end_of(first));
      copy_from_host(block, values.data(), block.size_bytes());
    }
  } else {
    queue.parallel_for(num_blocks(kept.count()), [&](int64_t block) {
      const int64_t first = block * kBlock;
      fill(master.data<float>() + first, first, end_of(first));
    });
  }
  take_floats(master);
}

void Param::store_kept(const float* values) {
  Queue& queue = kept().queue();
  if (queue.device() == Device::null) return;
  Tensor master = floats();
  if (is_padded()) fill_zero(master);
  Tensor real = master.flat(0, kept_elements().count());
  copy_from_host(real, values, real.size_bytes());
  take_floats(master);
}

void Param::store(const float* values) {
  store_kept(values + kept_elements().first);
}

void Param::store_whole(const float* whole) {
  std::vector<float> values(static_cast<size_t>(box_.extent.numel()));
  BoxRuns(whole_, box_).walk(0, box_.extent.numel(), [&](int64_t in_box, int64_t in_whole, int64_t count) {
    std::copy_n(whole + in_whole, count, values.data() + in_box);
  });
  store(values.data());
}

void Param::load(float* values) const {
  check(whole(), "param: got '{}', of which this rank has one shard, expected a replicated one", name_);
  Queue& queue = kept_.queue();
  if (queue.device() == Device::null) return;
  if (masters_ != nullptr) return read_master(0, box_.extent.numel(), values);
  Tensor master = floats();
  if (!master_.defined()) kernels_of(kept_).elementwise.cast(queue, master, kept_);
  const Tensor real = unpadded(master);
  copy_to_host(values, real, real.size_bytes());
}

}  // namespace athanor::autograd
