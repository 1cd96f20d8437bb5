#include "athanor/kernels/cpu/gemm_blocks.h"
#include "athanor/kernels/cpu/gemm_dots.h"
#include "athanor/kernels/cpu/gemm_problem.h"
#include "athanor/kernels/cpu/gemm_rows.h"
#include "athanor/kernels/cpu/gemm_split.h"
#include "athanor/kernels/cpu/rotation.h"

namespace athanor::kernels {
namespace {

// Fastest first; the last takes everything.
constexpr const GemmCandidate* kCandidates[] = {&amx_dots_gemm, &dots_gemm,   &amx_gemm,  &avx512_bf16_gemm,
                                                &split_gemm,    &avx512_gemm, &avx2_gemm, &rows_gemm};

const GemmCandidate& choose_candidate(const GemmProblem& problem, Isa isa) {
  for (const GemmCandidate* candidate : kCandidates)
    if (candidate->refuses(problem, isa).empty()) return *candidate;
  return rows_gemm;
}

// "1024x768x3072": m, n, k.
std::string describe(const GemmProblem& problem) {
  return fmt::format("{}x{}x{}", problem.m, problem.n, problem.k);
}

// Fused operations on the results of a product; null: not wanted.
struct Extras {
  const Tensor* bias = nullptr;
  const Tensor* residual = nullptr;
  Tensor* a_sums = nullptr;
  const Rotation* rotation = nullptr;
};

// Whether heads are a multiple of 32 wide, so that blocks of columns can hold complete heads.
bool is_in_units(const Rotation& rotation) {
  return rotation.head_dim % 32 == 0 && rotation.head_dim <= kMaxRotatedHead;
}

void product(Queue& queue, const char* kernel, Tensor& c, const Tensor& a, const Tensor& b,
             GemmProblem problem, const Extras& extras = {}) {
  const auto& [bias, residual, a_sums, rotation] = extras;
  problem.in = row_type(kernel, a);
  problem.out = row_type(kernel, c);
  check(b.dtype() == a.dtype(), "{}: b is {}, expected {} as a", kernel, name_of(b.dtype()),
        name_of(a.dtype()));
  check(c.shape().dims() > 0 && c.dim(-1) == problem.n && c.numel() == problem.m * problem.n,
        "{}: c is {}, expected [{},{}]", kernel, c.shape(), problem.m, problem.n);
  check(c.dtype() == Dtype::f32 || (c.dtype() == a.dtype() && !problem.accumulate),
        "{}: c is {}, expected {}", kernel, name_of(c.dtype()),
        problem.accumulate ? "f32" : "f32 or the type of a");
  if (bias != nullptr) expect(kernel, "bias", *bias, {problem.n}, a.dtype());
  if (residual != nullptr) {
    expect(kernel, "residual", *residual, c.shape(), c.dtype());
    check(residual->raw() != c.raw() || c.numel() == 0, "{}: c is its own residual", kernel);
  }
  if (a_sums != nullptr) expect(kernel, "sums", *a_sums, {problem.m}, Dtype::f32);
  if (problem.k == 0 && problem.accumulate) return;
  if (problem.m == 0 || problem.n == 0) return;
  // Products with k = 0: fast kernels take no empty sums.
  const GemmCandidate& candidate = problem.k == 0 ? rows_gemm : choose_candidate(problem, queue.isa());
  const bool fused = residual != nullptr && candidate.takes_residual && problem.out == kBf16;
  GemmOperands operands{a.raw(), b.raw(), bias == nullptr ? nullptr : bias->raw(), c.raw()};
  double bytes = bytes_of(a, b, c) + (problem.accumulate ? bytes_of(c) : 0.0);
  if (fused) {
    operands.residual = residual->raw();
    bytes += bytes_of(residual);
  }
  const bool sums_here = a_sums != nullptr && candidate.takes_a_sums && problem.a_col != 1;
  if (sums_here) operands.a_sums = a_sums->data<float>();
  const bool rotates =
      rotation != nullptr && candidate.takes_rotation && problem.out == kBf16 && is_in_units(*rotation);
  if (rotates) operands.rotation = rotation;
  const double elements = static_cast<double>(problem.m) * static_cast<double>(problem.n);
  {
    const Meter::Call call(queue.meter(), kernel, {2.0 * elements * static_cast<double>(problem.k), bytes},
                           queue.meter() == nullptr ? std::string() : describe(problem));
    candidate.run(queue, c.arena(), problem, operands);
  }
  if (residual != nullptr && !fused) cpu_elementwise.add(queue, c, *residual, c);
  if (a_sums != nullptr && !sums_here) cpu_elementwise.column_sum(queue, *a_sums, a);
  if (rotation != nullptr && !rotates) rotate(queue, c, c, *rotation, +1);
}

void check_operands(const char* kernel, const Tensor& a, const Tensor& b) {
  check(a.defined() && b.defined(), "{}: got an undefined operand", kernel);
  check(a.shape().dims() > 0 && b.shape().dims() > 0, "{}: got a {} and b {}, expected matrices", kernel,
        a.shape(), b.shape());
}

void check_inner(const char* kernel, const Tensor& a, const Tensor& b, int64_t a_length, int64_t b_length) {
  check(a_length == b_length, "{}: a {} and b {} must agree in their summed dimension", kernel, a.shape(),
        b.shape());
}

// The rows of a matrix of any number of dimensions, also if its last dimension is 0.
int64_t rows_of(const Tensor& x) {
  return x.shape().drop_last().numel();
}

GemmProblem nt_problem(const char* kernel, const Tensor& a, const Tensor& b) {
  check_operands(kernel, a, b);
  check_inner(kernel, a, b, a.dim(-1), b.dim(-1));
  const int64_t k = a.dim(-1);
  return {rows_of(a), rows_of(b), k, k, 1, 1, k, kF32, kF32, false};
}

GemmProblem nn_problem(const char* kernel, const Tensor& a, const Tensor& b) {
  check_operands(kernel, a, b);
  check_inner(kernel, a, b, a.dim(-1), rows_of(b));
  const int64_t k = a.dim(-1), n = b.dim(-1);
  return {rows_of(a), n, k, k, 1, n, 1, kF32, kF32, false};
}

void nt(Queue& queue, Tensor& c, const Tensor& a, const Tensor& b, const Tensor* bias) {
  product(queue, "gemm.nt", c, a, b, nt_problem("gemm.nt", a, b), {.bias = bias});
}

void nt_add(Queue& queue, Tensor& c, const Tensor& a, const Tensor& b, const Tensor* bias,
            const Tensor& residual) {
  product(queue, "gemm.nt", c, a, b, nt_problem("gemm.nt", a, b), {.bias = bias, .residual = &residual});
}

void nt_rope(Queue& queue, Tensor& c, const Tensor& a, const Tensor& b, const Tensor* bias, const Tensor& cos,
             const Tensor& sin, int64_t first_position) {
  const Rotation rotation = rotation_of(queue, "gemm.nt", c, cos, sin, first_position);
  Tensor rows = c.view({c.dim(0) * c.dim(1), c.dim(2) * c.dim(3)});
  product(queue, "gemm.nt", rows, a, b, nt_problem("gemm.nt", a, b), {.bias = bias, .rotation = &rotation});
}

void nn(Queue& queue, Tensor& c, const Tensor& a, const Tensor& b) {
  product(queue, "gemm.nn", c, a, b, nn_problem("gemm.nn", a, b));
}

void nn_add(Queue& queue, Tensor& c, const Tensor& a, const Tensor& b, const Tensor& residual) {
  product(queue, "gemm.nn", c, a, b, nn_problem("gemm.nn", a, b), {.residual = &residual});
}

GemmProblem tn_problem(const Tensor& c, const Tensor& a, const Tensor& b, bool add) {
  check_operands("gemm.tn", a, b);
  check_inner("gemm.tn", a, b, rows_of(a), rows_of(b));
  check(c.dtype() == Dtype::f32, "gemm.tn: c is {}, expected f32", name_of(c.dtype()));
  const int64_t m = a.dim(-1), n = b.dim(-1);
  return {m, n, rows_of(a), 1, m, n, 1, kF32, kF32, add};
}

void tn(Queue& queue, Tensor& c, const Tensor& a, const Tensor& b, bool add) {
  product(queue, "gemm.tn", c, a, b, tn_problem(c, a, b, add));
}

void tn_sums(Queue& queue, Tensor& c, Tensor& sums, const Tensor& a, const Tensor& b, bool add) {
  const GemmProblem problem = tn_problem(c, a, b, add);
  if (problem.n == 0) return cpu_elementwise.column_sum(queue, sums, a);
  product(queue, "gemm.tn", c, a, b, problem, {.a_sums = &sums});
}

// The products of a linear layer of a usual size, to ask the candidates about.
GemmProblem typical(RowType type) {
  return {1024, 768, 768, 768, 1, 1, 768, type, type, false};
}

}  // namespace

const GemmKernels cpu_gemm{nt, nn, tn, nt_add, nn_add, tn_sums, nt_rope};

std::span<const GemmCandidate* const> gemm_candidates() {
  return kCandidates;
}

std::string refuse_isa(Isa needed, Isa isa) {
  if (needed <= isa) return "";
  return needed > best_isa() ? "not on this machine" : "not asked for";
}

std::vector<KernelChoice> explain_gemm(Isa isa) {
  std::vector<KernelChoice> choices;
  for (const RowType type : {kF32, kBf16, kF16}) {
    constexpr const char* kTypes[] = {"f32", "bf16", "f16"};
    KernelChoice choice{std::string("gemm ") + kTypes[type], "", ""};
    for (const GemmCandidate* candidate : kCandidates) {
      const std::string why = candidate->refuses(typical(type), isa);
      if (why.empty()) {
        choice.chosen = candidate->name;
        break;
      }
      choice.refused += (choice.refused.empty() ? "" : ", ") + std::string(candidate->name) + ": " + why;
    }
    choices.push_back(choice);
  }
  return choices;
}

}  // namespace athanor::kernels
