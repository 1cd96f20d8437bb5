#include "athanor/autograd/param_storage.h"

#include <algorithm>
#include <vector>

#include "athanor/base/philox.h"
#include "athanor/kernels/table.h"

namespace athanor::autograd {
namespace {

// Elements per task: small enough that threads get equal work even for the matrices of small models.
constexpr int64_t kBlock = 1 << 13;

}  // namespace

Tensor ValueSource::kept(const ParamStorage& param) {
  fail("param: '{}' is asked from a source that keeps no values", param.spec().name());
}

void ParamStorage::keep(FlatRange range, Tensor kept, ValueSource* source) {
  check(0 <= range.first && range.first <= range.last && range.last <= spec_.numel() &&
            kept.numel() == range.count(),
        "param: '{}' {}: cannot keep [{}, {}) in {}", spec_.name(), spec_.shape(), range.first, range.last,
        kept.shape());
  range_ = range;
  dtype_ = kept.dtype();
  kept_ = std::move(kept);
  source_ = source;
}

void ParamStorage::take_place(StateHome* home) {
  if (home == nullptr || spec_.is_state() || is_kept_elsewhere()) return;
  place_ = home->find("model." + spec_.name());
  if (place_ < 0) return;
  home_ = home;
  master_ = home->values(place_).view(kept_shape());
}

void ParamStorage::allocate(Arena& arena, Dtype dtype, bool with_master, StateHome* home) {
  if (spec_.is_state()) dtype = Dtype::f32;
  if (with_master) take_place(home);
  if (whole()) {
    kept_ = value_ = master_.defined() && dtype == Dtype::f32
                         ? master_
                         : empty(arena, spec_.shape(), dtype, Category::parameters);
    dtype_ = dtype;
  }
  check(dtype_ == dtype, "param: '{}' is kept as {}, expected {}", spec_.name(), name_of(dtype_),
        name_of(dtype));
  if (master_.defined()) {
    master_apart_ = !whole() || dtype != Dtype::f32;
  } else if (dtype == Dtype::f32) {
    master_ = kept_;
  } else if (with_master) {
    master_ = empty(arena, kept_shape(), Dtype::f32, Category::optimizer);
  }
}

void ParamStorage::move_master(const Tensor& next) {
  master_ = next.view(kept_shape());
  if (!master_apart_) kept_ = value_ = master_;
}

void ParamStorage::copy_master() const {
  Tensor values = copy_of_master();
  if (!values.defined()) return;
  if (dtype_ == Dtype::f32) {
    copy(values, master_);
  } else {
    kernels_of(values).elementwise.cast(values.queue(), values, master_);
  }
}

Tensor ParamStorage::floats() const {
  Tensor floats = master();
  return floats.defined() ? floats : empty(kept().arena(), kept_shape(), Dtype::f32, Category::workspace);
}

void ParamStorage::take_floats(const Tensor& master) {
  if (master_apart_) {
    copy_master();
  } else if (dtype_ != Dtype::f32) {
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

void ParamStorage::keep_master(MasterStore* store) {
  check(defined() && !master_.defined(),
        "param: '{}' has no memory or a master already, expected an allocated parameter without one",
        spec_.name());
  masters_ = store;
}

void ParamStorage::read_master(int64_t first, int64_t count, float* values) const {
  if (masters_ != nullptr) return masters_->read_master(*this, first, count, values);
  const Tensor part = master().flat(first, count);
  copy_to_host(values, part, part.size_bytes());
}

void ParamStorage::initialize(uint64_t seed) {
  Queue& queue = kept().queue();
  if (queue.device() == Device::null) return;
  const RandomStream stream(seed, spec_.name());
  Tensor master = floats();
  if (spec_.is_padded()) fill_zero(master);
  const BoxRuns runs(spec_.whole_shape(), spec_.box());
  const FlatRange kept = kept_elements();
  // Writes the initial values of elements [first, last) to `out`.
  const auto fill = [&](float* out, int64_t first, int64_t last) {
    if (spec_.init().kind != Init::Kind::normal)
      return std::fill(out, out + (last - first), spec_.init().kind == Init::Kind::ones ? 1.0f : 0.0f);
    runs.walk(kept.first + first, kept.first + last, [&](int64_t in_box, int64_t in_whole, int64_t length) {
      stream.fill_normal(out + in_box - kept.first - first, static_cast<uint64_t>(in_whole),
                         static_cast<uint64_t>(length), spec_.init().std);
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
    queue.parallel_for((kept.count() + kBlock - 1) / kBlock, [&](int64_t block) {
      const int64_t first = block * kBlock;
      fill(master.data<float>() + first, first, end_of(first));
    });
  }
  take_floats(master);
}

void ParamStorage::store_kept(const float* values) {
  if (kept().queue().device() == Device::null) return;
  Tensor master = floats();
  if (spec_.is_padded()) fill_zero(master);
  Tensor real = master.flat(0, kept_elements().count());
  copy_from_host(real, values, real.size_bytes());
  take_floats(master);
}

void ParamStorage::store_whole(const float* whole) {
  const FlatRange kept = kept_elements();
  std::vector<float> values(static_cast<size_t>(kept.count()));
  const auto take = [&](int64_t in_box, int64_t in_whole, int64_t count) {
    std::copy_n(whole + in_whole, count, values.data() + (in_box - kept.first));
  };
  BoxRuns(spec_.whole_shape(), spec_.box()).walk(kept.first, kept.last, take);
  store_kept(values.data());
}

void ParamStorage::load(float* values) const {
  check(whole(), "param: got '{}', of which this rank has one shard, expected a replicated one",
        spec_.name());
  if (kept_.queue().device() == Device::null) return;
  if (masters_ != nullptr) return read_master(0, spec_.box().extent.numel(), values);
  Tensor master = floats();
  if (!master_.defined()) kernels_of(kept_).elementwise.cast(kept_.queue(), master, kept_);
  const Tensor real = master.flat(0, kept_elements().count());
  copy_to_host(values, real, real.size_bytes());
}

}  // namespace athanor::autograd
