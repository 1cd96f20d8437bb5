// bf16 products with AVX-512's instructions for them, in the panels of bf16/gemm.h.
#include "athanor/kernels/cpu/bf16/gemm.h"
#include "athanor/kernels/cpu/avx512_bf16/unit_products.h"

namespace athanor::avx512_bf16 {
namespace {

constexpr int64_t kPassSteps = 8;  // of 32: shares of a panel of a and one of b are 16 KiB each
constexpr ResultLayout kTiles{16, kTile, 2 * kTile};

template <Form kForm>
void multiply(const Task& task) {
  const int64_t steps = task.steps;
  Writer<kForm == Form::turned> writer(task);
  for (int64_t i = 0; i < task.a_panels; ++i) {
    Ahead ahead(task.a, (i + 1) * kSide, kSide);
    const int64_t passes = (steps + task.pass_steps - 1) / task.pass_steps;
    const int64_t rate = (ahead.left() + task.b_panels * passes - 1) / (task.b_panels * passes);
    for (int64_t first = 0; first < steps; first += task.pass_steps) {
      const int64_t count = smaller(task.pass_steps, steps - first);
      const uint16_t* a = units_of_a<kForm>(task, i, first, count).data;
      for (int64_t j = 0; j < task.b_panels; ++j) {
        float* sums = task.sums + j * kPair;
        ahead.fetch(rate);
        const uint16_t* b = task.b_packed + (j * steps + first) * kUnit;
        if (first + count < steps) {
          multiply_units<kTiles>(sums, a, b, count, first == 0, [] {});
        } else {
          writer.expect(i * kSide, j * kSide);
          writer.begin(sums, i * kSide, j * kSide);
          multiply_units<kTiles>(sums, a, b, count, first == 0, [&] { writer.lines(kRegisterRows); });
        }
      }
    }
  }
}

}  // namespace

void pack_b(const GemmBlock& block, std::byte* packed) {
  pack_block(block, packed);
}

void gemm_block(const GemmBlock& block) {
  if (block.a_col != 1)
    multiply<Form::turned>(task_of<Form::turned, kPassSteps, false>(block));
  else
    multiply<Form::copied>(task_of<Form::copied, kPassSteps, false>(block));
}

}  // namespace athanor::avx512_bf16
