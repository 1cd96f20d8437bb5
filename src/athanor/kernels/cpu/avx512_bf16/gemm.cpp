// bf16 products with the bf16 instructions of AVX-512, on the panels of bf16/gemm.h.
//
// Eight rows of a are multiplied by a panel of b over all of k, so no sums lie in memory. Both operands come from the
// second-level cache, faster than they are needed, and rows of a are read in place. A panel of b is multiplied by all
// rows of a group of panels of a before the next panel of b. So the cache must hold a group and one panel of b; the
// other panels stream through it.
#include "athanor/kernels/cpu/bf16/gemm.h"
#include "athanor/kernels/cpu/avx512_bf16/unit_products.h"

namespace athanor::kernels::avx512_bf16 {
namespace {

// How the sums of complete rows and columns are written. The first kind handles every case, edges included.
enum class Result { any, bf16, bf16_residual, bf16_added, bf16_added_residual, f32, f32_added, f32_streamed };

constexpr bool is_bf16(Result result) {
  return result >= Result::bf16 && result <= Result::bf16_added_residual;
}
constexpr bool adds(Result result) {
  return result == Result::bf16_added || result == Result::bf16_added_residual || result == Result::f32_added;
}
constexpr bool has_residual(Result result) {
  return result == Result::bf16_residual || result == Result::bf16_added_residual;
}

Result result_of(const GemmBlock& block) {
  const bool added = sums_of(block) != nullptr;
  if (block.out == kBf16) {
    if (block.a_col != 1) return Result::any;  // no model has it
    if (block.residual == nullptr) return added ? Result::bf16_added : Result::bf16;
    return added ? Result::bf16_added_residual : Result::bf16_residual;
  }
  if (added) return Result::f32_added;
  // A fresh gradient is larger than what caches keep until it is read.
  const bool aligned = reinterpret_cast<uintptr_t>(block.c) % 64 == 0 && block.c_row % 16 == 0;
  return block.a_col != 1 && aligned ? Result::f32_streamed : Result::f32;
}

// Row r of eight lies at row r of c, or where turned_row() puts it, beside the first.
template <Form kForm>
[[gnu::always_inline]] inline int64_t place(int64_t r) {
  return kForm == Form::interleaved && r >= 4 ? r + 4 : r;
}

// Prefetches what eight rows are added to.
template <Form kForm, Result kResult>
[[gnu::always_inline]] inline void fetch_rows(const GemmBlock& block, int64_t row, int64_t column) {
  const int64_t first = row * block.c_row + column;
  const float* const sums = sums_of(block);
  const auto* const residual = static_cast<const uint16_t*>(block.residual);
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRegisterRows; ++r) {
    const int64_t at = first + place<kForm>(r) * block.c_row;
    if constexpr (adds(kResult)) {
      _mm_prefetch(sums + at, _MM_HINT_T0);
      _mm_prefetch(sums + at + 16, _MM_HINT_T0);
    }
    if constexpr (has_residual(kResult)) _mm_prefetch(residual + at, _MM_HINT_T0);
  }
}

template <Form kForm, Result kResult>
[[gnu::always_inline]] inline void write_rows(const GemmBlock& block, const float* bias, const RowSums& rows,
                                              int64_t row, int64_t column) {
  const int64_t c_row = block.c_row, first = row * c_row + column;
  const __m512 left = _mm512_load_ps(bias + column), right = _mm512_load_ps(bias + column + 16);
  const float* const sums = sums_of(block);
  const auto* const residual = static_cast<const uint16_t*>(block.residual);
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRegisterRows; ++r) {
    const int64_t at = first + place<kForm>(r) * c_row;
    __m512 low = rows.left[r] + left, high = rows.right[r] + right;
    if constexpr (adds(kResult)) {
      low += _mm512_loadu_ps(sums + at);
      high += _mm512_loadu_ps(sums + at + 16);
    }
    if constexpr (is_bf16(kResult)) {
      __m512i c = rounded(low, high);
      if constexpr (has_residual(kResult)) c = with_residual(c, _mm512_loadu_si512(residual + at));
      _mm512_storeu_si512(static_cast<uint16_t*>(block.c) + at, c);
    } else {
      float* const c = static_cast<float*>(block.c) + at;
      if constexpr (kResult == Result::f32_streamed) {
        _mm512_stream_ps(c, low);
        _mm512_stream_ps(c + 16, high);
      } else {
        _mm512_storeu_ps(c, low);
        _mm512_storeu_ps(c + 16, high);
      }
    }
  }
}

// Prefetches into the second-level cache the rows of k under the next group of panels, for an a whose lines are
// contiguous. (Rows of a that are read in place are better left to the processor's own prefetcher.)
class RowsAhead {
 public:
  RowsAhead() = default;
  RowsAhead(const Operand& a, int64_t line)
      : at_(a.data + line), row_(a.depth), left_(line < a.lines ? a.k : 0) {}
  int64_t left() const { return left_; }
  void fetch(int64_t rows) {
    for (; rows > 0 && left_ > 0; --rows, --left_, at_ += row_)
      for (int64_t g = 0; g < kGroup; ++g) _mm_prefetch(at_ + g * kSide, _MM_HINT_T1);
  }

 private:
  const uint16_t* at_ = nullptr;
  int64_t row_ = 0, left_ = 0;
};
template <Form kForm>
RowsAhead rows_ahead(const Task& task, int64_t panel) {
  return kForm == Form::interleaved ? RowsAhead(task.a, panel * kSide) : RowsAhead();
}

// A panel of a, the rows of c from panel_row on, times the panel of b whose columns begin at `column`.
template <Form kForm, Result kResult>
void multiply_panels(const Task& task, Writer<kForm == Form::interleaved>& writer, const Units& a,
                     int64_t panel_row, int64_t column) {
  constexpr bool kInterleaved = kForm == Form::interleaved;
  const GemmBlock& block = task.block;
  const uint16_t* const b = task.b_packed + column * task.steps * kSide;
  const bool whole = panel_row + kSide <= block.m && column + kSide <= block.n;
  for (int64_t first = 0; first < kSide; first += kRegisterRows) {
    const int64_t row = panel_row + (kInterleaved ? turned_row(first) : first);
    if (whole) fetch_rows<kForm, kResult>(block, row, column);
    RowSums sums{};
    if constexpr (kInterleaved)
      add_interleaved_products(sums, a.data + first / 16 * a.tile + 2 * (first % 16), b, task.steps);
    else
      add_products(sums, a.data + first * (a.row_bytes / 2), a.row_bytes / 2, a.unit, b, task.steps);
    if (kResult != Result::any && whole) {
      write_rows<kForm, kResult>(block, task.bias, sums, row, column);
      continue;
    }
    alignas(64) float lines[kRegisterRows][kSide];
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRegisterRows; ++r) {
      _mm512_store_ps(lines[r], sums.left[r]);
      _mm512_store_ps(lines[r] + 16, sums.right[r]);
    }
    writer.at(panel_row, column);
    for (int64_t r = 0; r < kRegisterRows; ++r)
      writer.write(first + r, _mm512_load_ps(lines[r]), _mm512_load_ps(lines[r] + 16));
  }
}

// The number of panels of a that are multiplied by one panel of b before the next: as many as the second-level cache
// holds. A transposed a has ranges of k that are short enough for complete groups.
int64_t group_of(const GemmBlock& block) {
  return block.k <= kGroupDepth ? kGroup : kGroup / 2;
}

template <Form kForm, Result kResult>
void multiply(const Task& task) {
  Writer<kForm == Form::interleaved> writer(task);
  const int64_t group = group_of(task.block);
  for (int64_t i = 0; i < task.a_panels; i += group) {
    const int64_t panels = smaller(group, task.a_panels - i);
    Units a[kGroup];
    for (int64_t g = 0; g < panels; ++g) a[g] = units_of_a<kForm>(task, i + g, 0, task.steps);
    RowsAhead ahead = rows_ahead<kForm>(task, i + group);
    const int64_t rows = (ahead.left() + task.b_panels * panels - 1) / (task.b_panels * panels);
    for (int64_t j = 0; j < task.b_panels; ++j)
      for (int64_t g = 0; g < panels; ++g) {
        ahead.fetch(rows);
        multiply_panels<kForm, kResult>(task, writer, a[g], (i + g) * kSide, j * kSide);
      }
  }
}

template <Form kForm>
void multiply_block(const GemmBlock& block) {
  Task task = task_of<kForm>(block, num_units(block.k), group_of(block));
  task.in_place = kForm == Form::copied && block.k % kSide == 0;
  const Result result = result_of(block);
  if constexpr (kForm == Form::copied) {
    switch (result) {
      case Result::bf16:
        return multiply<kForm, Result::bf16>(task);
      case Result::bf16_residual:
        return multiply<kForm, Result::bf16_residual>(task);
      case Result::bf16_added:
        return multiply<kForm, Result::bf16_added>(task);
      case Result::bf16_added_residual:
        return multiply<kForm, Result::bf16_added_residual>(task);
      default:
        break;
    }
  }
  switch (result) {
    case Result::f32:
      return multiply<kForm, Result::f32>(task);
    case Result::f32_added:
      return multiply<kForm, Result::f32_added>(task);
    case Result::f32_streamed:
      return multiply<kForm, Result::f32_streamed>(task);
    default:
      return multiply<kForm, Result::any>(task);
  }
}

}  // namespace

void pack_b(const GemmBlock& block, std::byte* packed) {
  auto* const to = reinterpret_cast<uint16_t*>(packed);
  const Operand b = b_of(block);
  if (is_transposed(block)) return pack_panels<Form::transposed>(b, to);
  const int64_t steps = num_units(b.k), panels = num_units(b.lines);
  int64_t j = 0;
  for (; j + kGroup <= panels; j += kGroup)
    pack_panels_of_pairs<Form::paired, kGroup>(to + j * steps * kUnit, b, j * kSide, steps);
  for (; j < panels; ++j) pack_panels_of_pairs<Form::paired, 1>(to + j * steps * kUnit, b, j * kSide, steps);
}

void gemm_block(const GemmBlock& block) {
  if (block.a_col != 1)
    multiply_block<Form::interleaved>(block);
  else
    multiply_block<Form::copied>(block);
}

}  // namespace athanor::kernels::avx512_bf16
