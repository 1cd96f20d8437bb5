#include "athanor/parallel/data/outer_group.h"

#include <algorithm>

namespace athanor::parallel::data {
namespace {

constexpr int64_t kMeetingElementsPerTask = 1 << 14;

template <typename Body>
void for_element_ranges(const Arena& arena, int64_t count, const Body& body) {
  arena.queue().parallel_for(
      (count + kMeetingElementsPerTask - 1) / kMeetingElementsPerTask, [&](int64_t task) {
        body(task * kMeetingElementsPerTask, std::min(count, (task + 1) * kMeetingElementsPerTask));
      });
}

}  // namespace

OuterGroup::OuterGroup(std::vector<Param*> params, Group& inner, Group& across, Arena& arena,
                       const OuterOptions& options)
    : inner_(inner), across_(across), arena_(arena), options_(options), params_(std::move(params)) {
  for (const Param* param : params_) total_ += padded(param->master().numel());
  shared_out_ = inner_.size() > 1 &&
                (options_.copies || std::all_of(params_.begin(), params_.end(),
                                                [](const Param* param) { return param->whole(); }));
  row_ = shared_out_ ? padded((total_ + inner_.size() - 1) / inner_.size()) : total_;
  mine_ = segments_of(shared_out_ ? inner_.rank() : 0);
  weights_ = zeros(arena_, {row_}, Dtype::f32, Category::optimizer);
  momentum_ = zeros(arena_, {row_}, Dtype::f32, Category::optimizer);
  if (is_coded())
    coded_ = std::make_unique<BlockSum>(
        "outer gradient", std::vector<SumTensor>{{.name = "outer gradient", .rows = 1, .cols = row_}},
        *options_.code, across_, arena_, options_.error_feedback);
}

// With compression a parameter is padded to whole blocks, since no block spans two parameters.
int64_t OuterGroup::padded(int64_t count) const {
  return is_coded() ? (count + kCodeBlock - 1) / kCodeBlock * kCodeBlock : count;
}

std::vector<OuterGroup::Segment> OuterGroup::segments_of(int rank) const {
  std::vector<Segment> segments;
  const int64_t first = rank * row_, last = std::min(total_, first + row_);
  int64_t begin = 0;  // of the parameter, in the masters one after the other
  for (Param* param : params_) {
    const int64_t end = begin + param->master().numel();
    const int64_t from = std::max(first, begin), to = std::min(last, end);
    if (from < to) segments.push_back({param, from - begin, to - from, from - first});
    begin += padded(param->master().numel());
  }
  return segments;
}

void OuterGroup::begin() {
  for (const Segment& s : mine_) {
    Tensor place = weights_.flat(s.at, s.count);
    copy_from_host(place, s.param->master().flat(s.first, s.count).raw(), place.size_bytes());
  }
}

void OuterGroup::write_masters(const std::vector<Segment>& segments, const float* row) {
  for (const Segment& s : segments) {
    Tensor place = s.param->master().flat(s.first, s.count);
    copy_from_host(place, row + s.at, place.size_bytes());
  }
}

void OuterGroup::sync() {
  Tensor delta = zeros(arena_, {row_}, Dtype::f32, Category::communication);
  float *w = weights_.data<float>(), *u = momentum_.data<float>(), *d = delta.data<float>();
  const float share = 1.0f / static_cast<float>(across_.size());
  // Error-feedback residuals have the unit of the mean, so that they stay valid for another number of replica groups.
  const float sent = is_coded() ? share : 1.0f;
  for (const Segment& s : mine_) {
    const float* x = s.param->master().data<float>() + s.first;
    for_element_ranges(arena_, s.count, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) d[s.at + i] = (w[s.at + i] - x[i]) * sent;
    });
  }
  if (is_coded()) {
    WaitClock clock(nullptr);
    coded_->start({delta});
    coded_->proceed(clock);
    coded_->finish(clock);
  } else {
    across_.all_reduce(d, row_, Dtype::f32, "outer gradient").wait();
  }
  const float to_mean = is_coded() ? 1.0f : share, lr = static_cast<float>(options_.lr),
              momentum = static_cast<float>(options_.momentum);
  for_element_ranges(arena_, row_, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const float mean = d[i] * to_mean;
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
  for (const Param* param : params_) param->copy_master();
}

void OuterGroup::add_pieces(std::vector<OuterPiece>& pieces) const {
  for (const Segment& s : mine_) {
    const int64_t first = s.param->range().first + s.first;
    pieces.push_back(
        {s.param, {first, first + s.count}, weights_.flat(s.at, s.count), momentum_.flat(s.at, s.count)});
  }
}

void OuterGroup::add_residuals(std::vector<OuterResidual>& residuals) const {
  for (const SumState& state : is_coded() ? coded_->states() : std::vector<SumState>{})
    for (const Segment& s : mine_) {
      const int64_t from = std::max(state.range.first, s.at), to = std::min(state.range.last, s.at + s.count);
      if (from >= to) continue;
      const int64_t first = s.param->range().first + s.first + (from - s.at);
      residuals.push_back({s.param,
                           {first, first + (to - from)},
                           state.values.flat(from - state.range.first, to - from),
                           state.kind == StateKind::sum_residual});
    }
}

}  // namespace athanor::parallel::data
