#include "athanor/kernels/cpu/cpu.h"

namespace athanor::kernels {

void expect(const char* kernel, const char* name, const Tensor& x, const Shape& shape, Dtype dtype) {
  check(x.defined(), "{}: {} is undefined, expected {} {}", kernel, name, name_of(dtype), shape);
  check(x.shape() == shape && x.dtype() == dtype, "{}: {} is {} {}, expected {} {}", kernel, name,
        name_of(x.dtype()), x.shape(), name_of(dtype), shape);
}

void expect_count(const char* kernel, const char* name, const Tensor& x, int64_t count, Dtype dtype) {
  check(x.defined(), "{}: {} is undefined, expected {} [{}]", kernel, name, name_of(dtype), count);
  check(x.numel() == count && x.dtype() == dtype, "{}: {} is {} {}, expected {} with {} elements", kernel,
        name, name_of(x.dtype()), x.shape(), name_of(dtype), count);
}

RowType row_type(const char* kernel, const Tensor& x) {
  check(x.defined(), "{}: got an undefined tensor, expected f32, bf16 or f16", kernel);
  switch (x.dtype()) {
    case Dtype::f32:
      return kF32;
    case Dtype::bf16:
      return kBf16;
    case Dtype::f16:
      return kF16;
    default:
      fail("{}: got elements of {}, expected f32, bf16 or f16", kernel, name_of(x.dtype()));
  }
}

std::span<const RowTable* const> row_tables(Isa isa) {
  static constexpr const RowTable* kTables[] = {&amx_rows, &avx512_bf16_rows, &avx512_rows, &avx2_rows,
                                                &ref_rows};
  const std::span<const RowTable* const> all(kTables);
  return all.subspan(isa >= Isa::amx           ? 0
                     : isa >= Isa::avx512_bf16 ? 1
                     : isa >= Isa::avx512      ? 2
                     : isa >= Isa::avx2        ? 3
                                               : 4);
}

Tensor empty_partials(Arena& arena, int64_t rows, int64_t width) {
  return empty(arena, {num_blocks(rows, kReduceRows), width}, Dtype::f32, Category::workspace);
}

void add_partials(Queue& queue, Tensor& out, const Tensor& partials) {
  constexpr int64_t kColumns = 1024;
  const auto accumulate = choose_f32(queue, &F32Rows::accumulate);
  const int64_t width = partials.dim(1);
  float* to = out.data<float>();
  const float* from = partials.data<float>();
  for_blocks(queue, width, kColumns, [&](int64_t first, int64_t count) {
    for (int64_t block = 0; block < partials.dim(0); ++block)
      accumulate(to + first, from + block * width + first, count);
  });
}

}  // namespace athanor::kernels
