// athanor-bench attention: attention, forward and backward: causal, or of a pattern beside the same without one.
#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>

#include "apps/measure/timing.h"
#include "athanor/base/check.h"
#include "athanor/kernels/peak.h"
#include "athanor/masks/pattern.h"
#include "bench.h"

namespace athanor::apps {
namespace {

struct Shape4 {
  int64_t batch, seq, heads, kv_heads, head_dim;
};

// Tensors of one problem and the two calls.
struct Problem {
  Problem(Arena& arena, const Shape4& s, Dtype dtype, const AttentionPattern& pattern)
      : shape(s),
        causal(pattern.is_causal()),
        mask(mask_of(pattern, {.positions = {{{0, s.seq}}, {{0, s.seq}}}, .length = s.seq, .heads = s.heads},
                     /*layer=*/0)),
        hides(!pattern.is_plain_causal()),
        scale(1.0f / std::sqrt(static_cast<float>(s.head_dim))),
        q(random_tensor(arena, {s.batch, s.seq, s.heads, s.head_dim}, dtype, 1.0f, 1)),
        k(random_tensor(arena, {s.batch, s.seq, s.kv_heads, s.head_dim}, dtype, 1.0f, 2)),
        v(random_tensor(arena, {s.batch, s.seq, s.kv_heads, s.head_dim}, dtype, 1.0f, 3)),
        d_o(random_tensor(arena, {s.batch, s.seq, s.heads, s.head_dim}, dtype, 1.0f, 4)),
        o(empty_like(q)),
        lse(empty(arena, {s.batch, s.heads, s.seq}, Dtype::f32, Category::activations)),
        dq(empty_like(q)),
        dk(empty_like(k)),
        dv(empty_like(v)) {}

  // With the pattern, or without it: all pairs, of causal order if the pattern's are.
  AttentionPart part(bool with_mask) const {
    return {.causal = causal, .mask = with_mask && hides ? &mask : nullptr};
  }
  void forward(bool with_mask = true) {
    kernels_of(q).attention.forward(q.queue(), o, lse, q, k, v, scale, part(with_mask));
  }
  void backward(bool with_mask = true) {
    kernels_of(q).attention.backward(q.queue(), dq, dk, dv, d_o, o, lse, q, k, v, scale, part(with_mask));
  }
  // Of the definition: each product over the pairs that see each other.
  double flops(double products) const {
    return 2.0 * products * static_cast<double>(mask.pairs_of_all_heads()) *
           static_cast<double>(shape.batch * shape.head_dim);
  }
  bool sees(int64_t h, int64_t i, int64_t j) const {
    const AttentionMask::Bits* bits = nullptr;
    const Seen seen = mask.seen(mask.rule_of(h), i / 64, j / 64, &bits);
    return seen == Seen::all || (seen == Seen::some && (bits->rows[i % 64] >> (j % 64)) % 2 == 1);
  }
  // Blocks that all heads visit, and that they would visit without the pattern.
  std::pair<int64_t, int64_t> blocks() const {
    const int64_t each = mask.query_blocks(), all = causal ? each * (each + 1) / 2 : each * each;
    int64_t visited = 0;
    for (int64_t h = 0; h < shape.heads; ++h) {
      const AttentionMask::Figures& figures = mask.figures(mask.rule_of(h));
      visited += figures.full_blocks + figures.partial_blocks;
    }
    return {visited, shape.heads * all};
  }

  Shape4 shape;
  bool causal;
  AttentionMask mask;
  bool hides;
  float scale;
  Tensor q, k, v, d_o, o, lse, dq, dk, dv;
};

// o, dq, dk and dv of some rows in f64. Each row of a gradient is a sum over the others, whose lse and o come
// from the kernel: the forward rows are checked for themselves.
class AttentionRows {
 public:
  explicit AttentionRows(const Problem& p)
      : problem_(p),
        s_(p.shape),
        scale_(p.scale),
        q_(to_floats(p.q)),
        k_(to_floats(p.k)),
        v_(to_floats(p.v)),
        d_o_(to_floats(p.d_o)),
        o_(to_floats(p.o)),
        lse_(to_floats(p.lse)),
        dq_(to_floats(p.dq)),
        dk_(to_floats(p.dk)),
        dv_(to_floats(p.dv)) {}

  void compare(int64_t b, int64_t t, int64_t h);
  void check_all(const char* what, double limit) const;
  double error() const {
    return std::max({forward_.relative(), dq_error_.relative(), dk_error_.relative(), dv_error_.relative()});
  }

 private:
  using Row = std::vector<double>;
  const float* query(const std::vector<float>& x, int64_t b, int64_t t, int64_t h) const {
    return x.data() + ((b * s_.seq + t) * s_.heads + h) * s_.head_dim;
  }
  const float* key(const std::vector<float>& x, int64_t b, int64_t t, int64_t h) const {
    return x.data() + ((b * s_.seq + t) * s_.kv_heads + h / (s_.heads / s_.kv_heads)) * s_.head_dim;
  }
  double dot(const float* x, const float* y) const {
    double sum = 0.0;
    for (int64_t d = 0; d < s_.head_dim; ++d) sum += double{x[d]} * double{y[d]};
    return sum;
  }
  void add(Row& sum, double factor, const float* x) const {
    for (int64_t d = 0; d < s_.head_dim; ++d) sum[static_cast<size_t>(d)] += factor * double{x[d]};
  }
  void note(Difference& difference, const float* got, const Row& expected) const {
    for (int64_t d = 0; d < s_.head_dim; ++d) difference.add(got[d], expected[static_cast<size_t>(d)]);
  }
  void compare_query(int64_t b, int64_t t, int64_t h);
  void compare_key(int64_t b, int64_t t, int64_t h);

  const Problem& problem_;
  Shape4 s_;
  double scale_;
  std::vector<float> q_, k_, v_, d_o_, o_, lse_, dq_, dk_, dv_;
  Difference forward_, dq_error_, dk_error_, dv_error_;
};

void AttentionRows::compare(int64_t b, int64_t t, int64_t h) {
  compare_query(b, t, h);
  compare_key(b, t, h);
}

void AttentionRows::compare_query(int64_t b, int64_t t, int64_t h) {
  Row scores;
  std::vector<int64_t> seen;
  double top = -1e300;
  for (int64_t j = 0; j < s_.seq; ++j) {
    if (!problem_.sees(h, t, j)) continue;
    seen.push_back(j);
    scores.push_back(scale_ * dot(query(q_, b, t, h), key(k_, b, j, h)));
    top = std::max(top, scores.back());
  }
  double total = 0.0;
  for (double& score : scores) total += score = std::exp(score - top);
  Row o(static_cast<size_t>(s_.head_dim), 0.0), dq = o;
  for (size_t i = 0; i < seen.size(); ++i) add(o, scores[i] / total, key(v_, b, seen[i], h));
  note(forward_, query(o_, b, t, h), o);
  double delta = 0.0;
  for (int64_t d = 0; d < s_.head_dim; ++d)
    delta += o[static_cast<size_t>(d)] * double{query(d_o_, b, t, h)[d]};
  for (size_t i = 0; i < seen.size(); ++i) {
    const double ds = scores[i] / total * (dot(query(d_o_, b, t, h), key(v_, b, seen[i], h)) - delta);
    add(dq, scale_ * ds, key(k_, b, seen[i], h));
  }
  note(dq_error_, query(dq_, b, t, h), dq);
}

void AttentionRows::compare_key(int64_t b, int64_t t, int64_t h) {
  const int64_t group = s_.heads / s_.kv_heads, first = h / group * group;
  Row dk(static_cast<size_t>(s_.head_dim), 0.0), dv = dk;
  for (int64_t head = first; head < first + group; ++head)
    for (int64_t i = 0; i < s_.seq; ++i) {
      if (!problem_.sees(head, i, t)) continue;
      const double lse = lse_[static_cast<size_t>((b * s_.heads + head) * s_.seq + i)];
      const double p = std::exp(scale_ * dot(query(q_, b, i, head), key(k_, b, t, h)) - lse);
      const float* const d_o = query(d_o_, b, i, head);
      add(dv, p, d_o);
      const double ds = p * (dot(d_o, key(v_, b, t, h)) - dot(d_o, query(o_, b, i, head)));
      add(dk, scale_ * ds, query(q_, b, i, head));
    }
  note(dk_error_, key(dk_, b, t, h), dk);
  note(dv_error_, key(dv_, b, t, h), dv);
}

void AttentionRows::check_all(const char* what, double limit) const {
  const std::pair<const char*, const Difference*> parts[] = {
      {"o", &forward_}, {"dq", &dq_error_}, {"dk", &dk_error_}, {"dv", &dv_error_}};
  for (const auto& [name, difference] : parts)
    check(difference->relative() <= limit,
          "bench attention: {} {} is {:.2e} from rows in f64, expected {:.0e}", what, name,
          difference->relative(), limit);
}

// A few times what rounding makes of it.
double limit_of(Dtype dtype) {
  return dtype == Dtype::f32 ? 1e-5 : dtype == Dtype::f16 ? 1e-3 : 8e-3;
}

// Every row of a short sequence, some of a long one.
double check_rows(const Problem& problem, const char* what, int64_t every) {
  AttentionRows rows(problem);
  const Shape4& s = problem.shape;
  for (int64_t item = 0; item < s.batch * s.heads * s.seq; item += every)
    rows.compare(item / (s.heads * s.seq), item % s.seq, item / s.seq % s.heads);
  rows.check_all(what, limit_of(problem.q.dtype()));
  return rows.error();
}

struct BenchAttention {
  int64_t batch = 1, seq = 2048, heads = 12, kv_heads = 0, head_dim = 64;
  std::string dtype = "bf16", pattern = "causal";
  BenchRun on;

  void run();
};

Report part(const Series& seconds, const Series& ceiling, double flops) {
  Report report;
  report["ms"] = to_report(seconds, 1e3);
  report["gflops"] = flops / seconds.median() * 1e-9;
  report["of_ceiling"] = share_of(ceiling, flops, seconds);
  return report;
}

void BenchAttention::run() {
  const int64_t keys = kv_heads == 0 ? heads : kv_heads;
  if (heads % keys != 0)
    throw ConfigError(fmt::format("--kv-heads: got {}, expected a divisor of the {} heads", keys, heads));
  on.open();
  Queue& queue = *on.queue;
  Arena arena(queue);
  const double elements = static_cast<double>(batch * seq) * static_cast<double>(head_dim);
  check_memory(fmt::format("bench attention: {}x{}, {} heads of {}", batch, seq, heads, head_dim),
               elements * static_cast<double>(heads + keys) * 48.0);
  const Dtype type = parse_dtype(dtype);
  const Shape4 shape{batch, seq, heads, keys, head_dim};
  const AttentionPattern of = AttentionPattern::parse(pattern);
  of.check_fits({.length = seq, .layers = 1, .heads = heads});
  {
    Shape4 small = shape;
    small.batch = 1;
    small.seq = std::min<int64_t>(seq, 80);
    Problem problem(arena, small, type, of);
    problem.forward();
    problem.backward();
    check_rows(problem, "on a short sequence,", 1);
  }
  Problem problem(arena, shape, type, of);
  problem.forward();
  problem.backward();
  const int64_t all = batch * heads * seq;
  const double error = check_rows(problem, "of some rows,", std::max<int64_t>(1, all / 37) | 1);

  const auto series =
      interleave(on.rounds, {[&] { return on.seconds_of([&] { problem.forward(); }); },
                             [&] { return on.seconds_of([&] { problem.backward(); }); },
                             [&] { return measure_peak_flops(queue, type); },
                             [&] { return on.seconds_of([&] { problem.forward(false); }); },
                             [&] { return on.seconds_of([&] { problem.backward(false); }); }});
  const double forward = problem.flops(2.0), backward = problem.flops(5.0);
  const auto [visited, all_blocks] = problem.blocks();
  const auto gain = [&](size_t without, size_t with) {
    return series[without].median() / series[with].median();
  };
  if (on.json) {
    Report report;
    report["batch"] = batch;
    report["seq"] = seq;
    report["heads"] = heads;
    report["kv_heads"] = keys;
    report["head_dim"] = head_dim;
    report["dtype"] = dtype;
    report["threads"] = on.pool->num_threads();
    report["isa"] = isa_name(queue.isa());
    report["rounds"] = on.rounds;
    report["error"] = error;
    report["forward"] = part(series[0], series[2], forward);
    report["backward"] = part(series[1], series[2], backward);
    report["ceiling_gflops"] = to_report(series[2], 1e-9);
    if (problem.hides) {
      report["pattern"] = of.text();
      report["blocks"] = visited;
      report["blocks_without"] = all_blocks;
      report["forward_without_ms"] = to_report(series[3], 1e3);
      report["backward_without_ms"] = to_report(series[4], 1e3);
      report["forward_speedup"] = gain(3, 0);
      report["backward_speedup"] = gain(4, 1);
    }
    std::cout << report.to_json();
    return;
  }
  std::cout << fmt::format(
      "attention {}x{}, {} heads ({} of keys) of {}, {}, {} threads, {}; medians of {} rounds\n", batch, seq,
      heads, keys, head_dim, dtype, on.pool->num_threads(), isa_name(queue.isa()), on.rounds);
  const auto row = [&](const char* name, const Series& seconds, double flops) {
    std::cout << fmt::format(
        "{:<9} {:>9.3f} ms, spread {:>3.0f} %, {:>8.1f} GFLOP/s, {:>5.1f} % of the ceiling\n", name,
        seconds.median() * 1e3, 100.0 * seconds.spread(), flops / seconds.median() * 1e-9,
        100.0 * share_of(series[2], flops, seconds));
  };
  row("forward", series[0], forward);
  row("backward", series[1], backward);
  if (!problem.hides) return;
  const double most = static_cast<double>(all_blocks) / static_cast<double>(visited);
  std::cout << fmt::format(
      "{}: {} of {} blocks\nforward   {:.2f} times as fast as without it, backward {:.2f} times; by blocks "
      "{:.2f}: "
      "{:.0f} % and {:.0f} % of that\n",
      of.text(), visited, all_blocks, gain(3, 0), gain(4, 1), most, 100.0 * gain(3, 0) / most,
      100.0 * gain(4, 1) / most);
}

}  // namespace

void add_bench_attention(CLI::App& bench) {
  CLI::App* sub =
      bench.add_subcommand("attention", "Attention, forward and backward, causal or of a pattern");
  auto command = std::make_shared<BenchAttention>();
  add_size(*sub, "--batch", command->batch, "Sequences");
  add_size(*sub, "--seq", command->seq, "Tokens in a sequence");
  add_size(*sub, "--heads", command->heads, "Heads of queries");
  sub->add_option("--kv-heads", command->kv_heads, "Heads of keys and values (0: as many)")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20));
  add_size(*sub, "--head-dim", command->head_dim, "Width of a head");
  sub->add_option("--pattern", command->pattern,
                  "Who sees whom (docs/attention.md); beside all pairs, if it is another one")
      ->capture_default_str();
  sub->add_option("--dtype", command->dtype, "f32, bf16 or f16")
      ->capture_default_str()
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  command->on.add_device_option(*sub);
  command->on.add_options(*sub);
  sub->footer(
      "Operations are those of the definition, over the pairs that see each other: two products forward, "
      "five\n"
      "backward (the scores are made again). Results are checked first, all rows of a short sequence and "
      "some\n"
      "of the long one, against rows in f64.");
  sub->callback([command] { command->run(); });
}

}  // namespace athanor::apps
