#include <cstring>

#include "athanor/kernels/cpu/cpu.h"

namespace athanor::kernels {
namespace {

void check_ids(const char* kernel, const Queue& queue, const Tensor& ids, int64_t vocabulary) {
  if (!on_cpu(queue)) return;
  const int32_t* id = ids.data<int32_t>();
  for (int64_t n = 0; n < ids.numel(); ++n)
    check((id[n] >= 0 && id[n] < vocabulary) || id[n] == kNoRow,
          "{}: id {} at position {}, expected 0 <= id < {}", kernel, id[n], n, vocabulary);
}

// Checks that ids [B,T] and y or dy [B,T,C] fit together.
void check_shapes(const char* kernel, const Tensor& ids, const char* name, const Tensor& y) {
  check(ids.defined() && ids.shape().dims() == 2, "{}: ids are {}, expected [B,T]", kernel, ids.shape());
  expect(kernel, "ids", ids, ids.shape(), Dtype::i32);
  check(y.defined() && y.shape().dims() == 3 && y.shape().drop_last() == ids.shape(),
        "{}: {} is {}, expected [{},{},C]", kernel, name, y.shape(), ids.dim(0), ids.dim(1));
}

void check_positions(const char* kernel, const char* name, const Tensor& positions, const Tensor& y,
                     int64_t first) {
  check(positions.defined() && positions.shape().dims() == 2 && positions.dim(1) == y.dim(2),
        "{}: {} is {}, expected [P,{}]", kernel, name, positions.shape(), y.dim(2));
  check(first >= 0 && first + y.dim(1) <= positions.dim(0),
        "{}: got positions [{}, {}), expected them within {} of {}", kernel, first, first + y.dim(1),
        positions.dim(0), name);
}

void forward(Queue& queue, Tensor& y, const Tensor& ids, const Tensor& table, const Tensor* positions,
             int64_t first_position) {
  const char* kernel = "embedding.forward";
  const EmbeddingRows& rows =
      choose(queue, &RowTable::embedding, row_type(kernel, table), &EmbeddingRows::add_rows);
  check_shapes(kernel, ids, "y", y);
  const int64_t width = y.dim(2), length = y.dim(1);
  expect(kernel, "y", y, y.shape(), table.dtype());
  check(table.shape().dims() == 2 && table.dim(1) == width, "{}: table is {}, expected [V,{}]", kernel,
        table.shape(), width);
  if (positions != nullptr) {
    check_positions(kernel, "positions", *positions, y, first_position);
    expect(kernel, "positions", *positions, positions->shape(), table.dtype());
  }
  check_ids(kernel, queue, ids, table.dim(0));
  const Meter::Call call = metered(queue, kernel, flops_of(y), bytes_of(y, y));
  for_blocks(queue, ids.numel(), rows_per_block(width), [&](int64_t first, int64_t count) {
    for (int64_t n = first; n < first + count; ++n) {
      const void* position =
          positions == nullptr ? nullptr : at(*positions, (first_position + n % length) * width);
      const int32_t id = ids.data<int32_t>()[n];
      if (id != kNoRow) {
        rows.add_rows(at(y, n * width), at(table, id * width), position, width);
      } else if (position != nullptr) {
        rows.add_rows(at(y, n * width), position, nullptr, width);
      } else {
        std::memset(at(y, n * width), 0, static_cast<size_t>(width) * size_of(y.dtype()));
      }
    }
  });
}

// Divided by columns, so that one thread adds all the rows of one id, in order.
constexpr int64_t kColumns = 128;

void backward(Queue& queue, Tensor& dtable, const Tensor& dy, const Tensor& ids) {
  const char* kernel = "embedding.backward";
  const EmbeddingRows& rows =
      choose(queue, &RowTable::embedding, row_type(kernel, dy), &EmbeddingRows::backward);
  check_shapes(kernel, ids, "dy", dy);
  const int64_t width = dy.dim(2);
  check(dtable.defined() && dtable.shape().dims() == 2, "{}: dtable is {}, expected [V,{}]", kernel,
        dtable.shape(), width);
  expect(kernel, "dtable", dtable, {dtable.dim(0), width}, Dtype::f32);
  check_ids(kernel, queue, ids, dtable.dim(0));
  const Meter::Call call = metered(queue, kernel, flops_of(dy), 5.0 * bytes_of(dy));
  for_blocks(queue, width, kColumns, [&](int64_t first, int64_t count) {
    const int32_t* id = ids.data<int32_t>();
    for (int64_t n = 0; n < ids.numel(); ++n)
      if (id[n] != kNoRow)
        rows.backward(dtable.data<float>() + id[n] * width + first, at(dy, n * width + first), count);
  });
}

void backward_positions(Queue& queue, Tensor& dpositions, const Tensor& dy, int64_t first_position) {
  const char* kernel = "embedding.backward_positions";
  const EmbeddingRows& rows =
      choose(queue, &RowTable::embedding, row_type(kernel, dy), &EmbeddingRows::backward);
  check(dy.shape().dims() == 3, "{}: dy is {}, expected [B,T,C]", kernel, dy.shape());
  check_positions(kernel, "dpositions", dpositions, dy, first_position);
  expect(kernel, "dpositions", dpositions, dpositions.shape(), Dtype::f32);
  const int64_t batch = dy.dim(0), length = dy.dim(1), width = dy.dim(2);
  const Meter::Call call = metered(queue, kernel, flops_of(dy), bytes_of(dy));
  for_blocks(queue, length, rows_per_block(width), [&](int64_t first, int64_t count) {
    for (int64_t t = first; t < first + count; ++t)
      for (int64_t b = 0; b < batch; ++b)
        rows.backward(dpositions.data<float>() + (first_position + t) * width,
                      at(dy, (b * length + t) * width), width);
  });
}

void move_rows(Queue& queue, Tensor& sum, Tensor& table, const Tensor& ids) {
  const char* kernel = "embedding.move_rows";
  expect(kernel, "table", table, sum.shape(), Dtype::f32);
  check(sum.shape().dims() == 2, "{}: sum is {}, expected [V,C]", kernel, sum.shape());
  expect(kernel, "sum", sum, sum.shape(), Dtype::f32);
  check_ids(kernel, queue, ids, sum.dim(0));
  const int64_t width = sum.dim(1);
  const auto add = choose_f32(queue, &F32Rows::accumulate);
  const double elements = static_cast<double>(ids.numel()) * static_cast<double>(width);
  const Meter::Call call = metered(queue, kernel, elements, 4.0 * 4.0 * elements);
  for_blocks(queue, width, kColumns, [&](int64_t first, int64_t count) {
    for (int64_t n = 0; n < ids.numel(); ++n) {
      if (ids.data<int32_t>()[n] == kNoRow) continue;
      const int64_t place = ids.data<int32_t>()[n] * width + first;
      add(sum.data<float>() + place, table.data<float>() + place, count);
      std::memset(table.data<float>() + place, 0, static_cast<size_t>(count) * sizeof(float));
    }
  });
}

}  // namespace

const EmbeddingKernels cpu_embedding{forward, backward, backward_positions, move_rows};

}  // namespace athanor::kernels
