#include "athanor/parallel/two_speed.h"

#include <algorithm>

#include "athanor/kernels/table.h"

namespace athanor {
namespace {

constexpr int64_t kElementsPerTask = 1 << 14;

template <typename Body>
void for_elements(const Arena& arena, int64_t count, const Body& body) {
  arena.queue().parallel_for((count + kElementsPerTask - 1) / kElementsPerTask, [&](int64_t task) {
    body(task * kElementsPerTask, std::min(count, (task + 1) * kElementsPerTask));
  });
}

}  // namespace

OuterSync::OuterSync(const std::vector<std::unique_ptr<Param>>& params, Group& inner, Group& across,
                     Arena& arena, const OuterOptions& options)
    : inner_(inner), across_(across), arena_(arena), options_(options) {
  for (const auto& param : params)
    if (!param->is_state()) params_.push_back(param.get());
  for (const Param* param : params_) total_ += param->master().numel();
  shared_out_ = inner_.size() > 1 && std::all_of(params_.begin(), params_.end(),
                                                 [](const Param* param) { return param->whole(); });
  row_ = shared_out_ ? (total_ + inner_.size() - 1) / inner_.size() : total_;
  mine_ = segments_of(shared_out_ ? inner_.rank() : 0);
  weights_ = zeros(arena_, {row_}, Dtype::f32, Category::optimizer);
  momentum_ = zeros(arena_, {row_}, Dtype::f32, Category::optimizer);
}

std::vector<OuterSync::Segment> OuterSync::segments_of(int rank) const {
  std::vector<Segment> segments;
  const int64_t first = rank * row_, last = std::min(total_, first + row_);
  int64_t begin = 0;  // of the parameter, in the masters one after the other
  for (Param* param : params_) {
    const int64_t end = begin + param->master().numel();
    const int64_t from = std::max(first, begin), to = std::min(last, end);
    if (from < to) segments.push_back({param, from - begin, to - from, from - first});
    begin = end;
  }
  return segments;
}

void OuterSync::begin() {
  if (begun_) return;
  begun_ = true;
  if (arena_.queue().device() == Device::null) return;
  for (const Segment& s : mine_) {
    Tensor place = weights_.flat(s.at, s.count);
    copy_from_host(place, s.param->master().flat(s.first, s.count).raw(), place.size_bytes());
  }
}

void OuterSync::write_masters(const std::vector<Segment>& segments, const float* row) {
  if (arena_.queue().device() == Device::null) return;
  for (const Segment& s : segments) {
    Tensor place = s.param->master().flat(s.first, s.count);
    copy_from_host(place, row + s.at, place.size_bytes());
  }
}

void OuterSync::sync() {
  Tensor delta = zeros(arena_, {row_}, Dtype::f32, Category::communication);
  float *w = weights_.data<float>(), *u = momentum_.data<float>(), *d = delta.data<float>();
  for (const Segment& s : mine_) {
    const float* x = s.param->master().data<float>() + s.first;
    for_elements(arena_, s.count, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) d[s.at + i] = w[s.at + i] - x[i];
    });
  }
  across_.all_reduce(d, row_, Dtype::f32, "outer gradient").wait();
  const float share = 1.0f / static_cast<float>(across_.size()), lr = static_cast<float>(options_.lr),
              momentum = static_cast<float>(options_.momentum);
  for_elements(arena_, row_, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const float mean = d[i] * share;
      u[i] = momentum * u[i] + mean;
      w[i] -= lr * (mean + momentum * u[i]);
    }
  });
  if (shared_out_) {
    Tensor all = empty(arena_, {inner_.size(), row_}, Dtype::f32, Category::communication);
    inner_.all_gather(w, all.raw(), row_, Dtype::f32, "outer weights").wait();
    for (int rank = 0; rank < inner_.size(); ++rank)
      write_masters(segments_of(rank), all.data<float>() + rank * row_);
  } else {
    write_masters(mine_, w);
  }
  for (const Param* param : params_) {
    Tensor kept = param->kept();
    if (kept.dtype() != Dtype::f32) kernels(kept).elementwise.cast(kept.queue(), kept, param->master());
  }
}

std::vector<OuterSync::Piece> OuterSync::pieces() const {
  std::vector<Piece> pieces;
  for (const Segment& s : mine_) {
    const int64_t first = s.param->range().first + s.first;
    pieces.push_back(
        {s.param, {first, first + s.count}, weights_.flat(s.at, s.count), momentum_.flat(s.at, s.count)});
  }
  return pieces;
}

}  // namespace athanor
