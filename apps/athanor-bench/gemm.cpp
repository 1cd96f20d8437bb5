// athanor-bench gemm: the matrix products of a model, ours beside oneDNN's and the ceiling.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "apps/measure/timing.h"
#include "athanor/base/check.h"
#include "athanor/config/presets.h"
#include "athanor/kernels/peak.h"
#include "bench.h"
#include "onednn.h"

namespace athanor::apps {
namespace {

constexpr int64_t kLargestOfAll = 2'000'000'000;  // parameters; larger models are asked for by name

// kernels/gemm.h: nt is y = x . W^T, nn dx = dy . W, tn dW += dy^T . x.
enum class Op { nt, nn, tn };
constexpr const char* kOpNames[] = {"nt", "nn", "tn"};

struct Shape3 {
  Op op;
  int64_t m, n, k;
  bool f32_out;
  auto operator<=>(const Shape3&) const = default;
};

struct Measured {
  Shape3 shape;
  std::vector<std::string> uses;
  double error = 0.0;
  Series ours, ceiling;
  std::vector<OnednnForm> forms;
  std::vector<Series> peers;
  // Over the best form that may be compared: b of a tn product is no weight, so packing it counts.
  double ratio = 0.0;
  double packed_ratio = 0.0;  // over b packed in advance, whatever it is
  size_t best = 0;
};

struct BenchGemm {
  std::string preset = "gpt2-124m", dtype = "bf16";
  int64_t tokens = 1024;
  BenchRun on;

  void run();

 private:
  std::vector<Measured> shapes() const;
  void measure(Measured& entry);
  void check_result(const Measured& entry, const char* who, const Tensor& a, const Tensor& b, const Tensor& c,
                    double* error) const;
  void print(const std::vector<Measured>& all) const;
};

std::vector<Measured> BenchGemm::shapes() const {
  std::vector<Measured> all;
  const auto add = [&](const std::string& use, Shape3 shape) {
    for (Measured& entry : all)
      if (entry.shape == shape) return entry.uses.push_back(use);
    Measured& entry = all.emplace_back();
    entry.shape = shape;
    entry.uses = {use};
  };
  std::vector<std::string> names = {preset};
  if (preset == "all") names = preset_names();
  for (const std::string& name : names) {
    const ModelConfig model = preset_model(name);
    if (preset == "all" && num_params(model) > kLargestOfAll) continue;
    const std::string prefix = preset == "all" ? name + " " : "";
    const int64_t queries = model.num_attention_heads * model.head_dim,
                  keys = model.num_key_value_heads * model.head_dim;
    const auto linear = [&](const char* layer, int64_t in, int64_t out, bool f32_out = false) {
      add(prefix + layer, {Op::nt, tokens, out, in, f32_out});
      add(prefix + layer, {Op::nn, tokens, in, out, false});
      add(prefix + layer, {Op::tn, out, in, tokens, true});
    };
    linear("q", model.hidden_size, queries);
    linear("k", model.hidden_size, keys);
    linear("v", model.hidden_size, keys);
    linear("o", queries, model.hidden_size);
    if (model.model_type == "llama") linear("gate", model.hidden_size, model.intermediate_size);
    linear("up", model.hidden_size, model.intermediate_size);
    linear("down", model.intermediate_size, model.hidden_size);
    linear("head", model.hidden_size, model.vocab_size, /*f32_out=*/true);
  }
  return all;
}

// Against sums in f64, of as many rows as take a fraction of a second.
void BenchGemm::check_result(const Measured& entry, const char* who, const Tensor& a, const Tensor& b,
                             const Tensor& c, double* error) const {
  constexpr double kEnough = 1e8;
  const Op op = entry.shape.op;
  const int64_t m = entry.shape.m, n = entry.shape.n, k = entry.shape.k;
  const double each = static_cast<double>(n) * static_cast<double>(k);
  const int64_t rows = std::clamp<int64_t>(static_cast<int64_t>(kEnough / each), std::min<int64_t>(2, m), m);
  const std::vector<float> x = to_floats(a), y = to_floats(b), z = to_floats(c);
  std::vector<Difference> differences(static_cast<size_t>(rows));
  on.queue->parallel_for(rows, [&](int64_t row) {
    const int64_t i = rows == 1 ? 0 : row * (m - 1) / (rows - 1);
    std::vector<double> sums(static_cast<size_t>(n), 0.0);
    for (int64_t j = 0; op == Op::nt && j < n; ++j)
      for (int64_t l = 0; l < k; ++l) sums[j] += double{x[i * k + l]} * double{y[j * k + l]};
    for (int64_t l = 0; op != Op::nt && l < k; ++l) {
      const double factor = op == Op::nn ? x[i * k + l] : x[l * m + i];
      for (int64_t j = 0; j < n; ++j) sums[j] += factor * double{y[l * n + j]};
    }
    for (int64_t j = 0; j < n; ++j) differences[row].add(z[i * n + j], sums[j]);
  });
  Difference all;
  for (const Difference& part : differences) {
    all.squares += part.squares;
    all.reference += part.reference;
  }
  const double limit =
      c.dtype() == Dtype::bf16 ? 4e-3 : 2e-5;  // half a unit of the last place of bf16 is 2e-3
  *error = std::max(*error, all.relative());
  check(all.relative() <= limit, "bench gemm: {} {} {}x{}x{} is {:.2e} from the sum in f64, expected {:.0e}",
        who, kOpNames[static_cast<int>(op)], m, n, k, all.relative(), limit);
}

void BenchGemm::measure(Measured& entry) {
  const Op op = entry.shape.op;
  const int64_t m = entry.shape.m, n = entry.shape.n, k = entry.shape.k;
  const Dtype in = parse_dtype(dtype), out = entry.shape.f32_out ? Dtype::f32 : in;
  Queue& queue = *on.queue;
  Arena arena(queue);
  const double mk = static_cast<double>(m) * static_cast<double>(k);
  const double kn = static_cast<double>(k) * static_cast<double>(n);
  const double mn = static_cast<double>(m) * static_cast<double>(n);
  check_memory(fmt::format("bench gemm: {}x{}x{}", m, n, k),
               (mk + 2.0 * kn) * static_cast<double>(size_of(in)) +
                   2.0 * mn * static_cast<double>(size_of(out)) + 4.0 * (mk + kn + mn));
  const Tensor a = random_tensor(arena, op == Op::tn ? Shape{k, m} : Shape{m, k}, in, 1.0f, 1);
  const Tensor b = random_tensor(arena, op == Op::nt ? Shape{n, k} : Shape{k, n}, in, 0.1f, 2);
  Tensor c = zeros(arena, {m, n}, out, Category::activations);
  const auto ours = [&] {
    const GemmKernels& gemm = kernels_of(a).gemm;
    if (op == Op::nt) gemm.nt(queue, c, a, b, nullptr);
    if (op == Op::nn) gemm.nn(queue, c, a, b);
    if (op == Op::tn) gemm.tn(queue, c, a, b, true);
  };
  ours();
  check_result(entry, "our", a, b, c, &entry.error);

  std::vector<std::function<double()>> measurements = {[&] { return seconds_of(ours); },
                                                       [&] { return measure_peak_flops(queue, in); }};
  std::vector<std::unique_ptr<OnednnProduct>> peers;
  Tensor peer_c = empty_like(c);
  for (const OnednnForm form : {OnednnForm::packed, OnednnForm::plain, OnednnForm::repacked}) {
    if (form == OnednnForm::repacked && op != Op::tn) continue;
    const OnednnProblem problem{m, n, k, op == Op::tn, op == Op::nt, op == Op::tn};
    auto peer = OnednnProduct::make(problem, form, a, b, peer_c);
    if (peer == nullptr) continue;
    fill_zero(peer_c);
    peer->run();
    double error = 0.0;
    check_result(entry, "oneDNN's", a, b, peer_c, &error);
    rest_onednn();
    measurements.emplace_back([product = peer.get()] {
      const double seconds = seconds_of([&] { product->run(); });
      rest_onednn();
      return seconds;
    });
    entry.forms.push_back(form);
    peers.push_back(std::move(peer));
  }
  const std::vector<Series> series = interleave(on.rounds, measurements);
  entry.ours = series[0];
  entry.ceiling = series[1];
  entry.peers.assign(series.begin() + 2, series.end());
  bool found = false;
  for (size_t i = 0; i < entry.peers.size(); ++i) {
    const double ratio = median_ratio(entry.peers[i], entry.ours);
    if (entry.forms[i] == OnednnForm::packed) entry.packed_ratio = ratio;
    if (op == Op::tn && entry.forms[i] == OnednnForm::packed) continue;
    if (!found || ratio < entry.ratio) {
      entry.ratio = ratio;
      entry.best = i;
    }
    found = true;
  }
}

Report to_report(const Measured& entry) {
  const auto [op, m, n, k, f32_out] = entry.shape;
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  Report report;
  report["product"] = kOpNames[static_cast<int>(op)];
  report["m"] = m;
  report["n"] = n;
  report["k"] = k;
  for (const std::string& use : entry.uses) report["uses"].push_back(use);
  report["error"] = entry.error;
  report["ms"] = to_report(entry.ours, 1e3);
  report["gflops"] = flops / entry.ours.median() * 1e-9;
  report["ceiling_gflops"] = to_report(entry.ceiling, 1e-9);
  report["of_ceiling"] = share_of(entry.ceiling, flops, entry.ours);
  for (size_t i = 0; i < entry.peers.size(); ++i)
    report["onednn_ms"][name_of(entry.forms[i])] = to_report(entry.peers[i], 1e3);
  if (entry.peers.empty()) return report;
  report["onednn_form"] = name_of(entry.forms[entry.best]);
  report["ratio"] = entry.ratio;
  report["ratio_packed"] = entry.packed_ratio;
  return report;
}

std::string row(const Measured& entry) {
  const auto [op, m, n, k, f32_out] = entry.shape;
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  std::string line =
      fmt::format("{} {:>17} {:>9.3f} {:>4.0f} % {:>8.1f} {:>6.1f} %", kOpNames[static_cast<int>(op)],
                  fmt::format("{}x{}x{}", m, n, k), entry.ours.median() * 1e3, 100.0 * entry.ours.spread(),
                  flops / entry.ours.median() * 1e-9, 100.0 * share_of(entry.ceiling, flops, entry.ours));
  if (!entry.peers.empty())
    line += fmt::format(" {:>9.3f} {:<8} {:>6.2f}", entry.peers[entry.best].median() * 1e3,
                        name_of(entry.forms[entry.best]), entry.ratio);
  std::string uses;
  for (const std::string& use : entry.uses) uses += (uses.empty() ? "" : ", ") + use;
  return line + "  " + (uses.size() > 24 ? uses.substr(0, 21) + "..." : uses) + "\n";
}

void BenchGemm::print(const std::vector<Measured>& all) const {
  std::vector<double> ratios, packed;
  for (const Measured& entry : all) {
    if (entry.peers.empty()) continue;
    ratios.push_back(entry.ratio);
    packed.push_back(entry.packed_ratio);
  }
  if (on.json) {
    Report report;
    report["preset"] = preset;
    report["tokens"] = tokens;
    report["dtype"] = dtype;
    report["threads"] = on.pool->num_threads();
    report["isa"] = isa_name(on.queue->isa());
    report["rounds"] = on.rounds;
    for (const Measured& entry : all) report["products"].push_back(to_report(entry));
    if (!ratios.empty()) {
      report["geometric_mean"] = geometric_mean(ratios);
      report["min"] = *std::min_element(ratios.begin(), ratios.end());
      report["geometric_mean_packed"] = geometric_mean(packed);
      report["min_packed"] = *std::min_element(packed.begin(), packed.end());
    }
    std::cout << report.to_json();
    return;
  }
  if (ratios.empty()) {
    std::cout << "oneDNN has no such product for this instruction set\n";
    return;
  }
  std::cout << fmt::format(
      "over oneDNN: geometric mean {:.2f}, least {:.2f}; with b packed in advance {:.2f}, {:.2f}\n",
      geometric_mean(ratios), *std::min_element(ratios.begin(), ratios.end()), geometric_mean(packed),
      *std::min_element(packed.begin(), packed.end()));
}

void BenchGemm::run() {
  std::vector<Measured> all = shapes();
  on.open();
  set_onednn(on.queue->isa(), on.pool->num_threads());
  if (!on.json)
    std::cout << fmt::format(
        "{} products of {}, {} tokens, {}, {} threads, {}; medians of {} rounds\n{:<20} {:>9} {:>6} {:>8} "
        "{:>8} {:>18} {:>6}\n",
        all.size(), preset, tokens, dtype, on.pool->num_threads(), isa_name(on.queue->isa()), on.rounds,
        "     m x n x k", "ms", "spread", "GFLOP/s", "ceiling", "oneDNN ms        ", "ratio");
  for (Measured& entry : all) {
    measure(entry);
    if (!on.json) std::cout << row(entry) << std::flush;
  }
  print(all);
}

}  // namespace

void add_bench_gemm(CLI::App& bench) {
  CLI::App* sub =
      bench.add_subcommand("gemm", "The matrix products of a model beside oneDNN and the ceiling");
  auto command = std::make_shared<BenchGemm>();
  sub->add_option("--preset", command->preset, "Model, or 'all' for those of at most two billion parameters")
      ->capture_default_str();
  add_size(*sub, "--tokens", command->tokens, "Rows of activations");
  sub->add_option("--dtype", command->dtype, "bf16 or f32")
      ->capture_default_str()
      ->check(CLI::IsMember({"bf16", "f32"}));
  command->on.add_options(*sub);
  sub->footer(
      "nt is y = x W^T, nn is dx = dy W, tn is dW += dy^T x. Each result is checked against sums in f64 "
      "before\n"
      "it is timed. oneDNN has all threads, and weights packed in its own layout before the clock starts;\n"
      "activations (tn) it packs within, or takes as they lie, whichever is faster.");
  sub->callback([command] { command->run(); });
}

}  // namespace athanor::apps
