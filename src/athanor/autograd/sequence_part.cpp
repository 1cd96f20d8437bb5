#include "athanor/autograd/sequence_part.h"

#include <algorithm>
#include <cstring>

namespace athanor::autograd {

int64_t token_count(const std::vector<TokenRun>& runs) {
  int64_t sum = 0;
  for (const TokenRun& run : runs) sum += run.count;
  return sum;
}

void walk_tokens(const SequencePart& part, int64_t first, int64_t last, int64_t num_sequences,
                 const std::function<void(int64_t row, int64_t place, int64_t count)>& visit) {
  int64_t row = 0;
  for (int64_t sequence = 0; sequence < num_sequences; ++sequence)
    for (const TokenRun& run : part.runs) {
      const int64_t begin = std::max(first, row), end = std::min(last, row + run.count);
      if (begin < end) visit(begin, sequence * part.length + run.first + begin - row, end - begin);
      row += run.count;
    }
}

Tensor rows_at(const SequencePart& part, const Tensor& table) {
  const int64_t width = table.dim(1);
  Tensor rows = empty(table.arena(), {part.count(), width}, table.dtype(), Category::workspace);
  if (rows.queue().device() == Device::null) return rows;
  walk_tokens(part, 0, part.count(), 1, [&](int64_t row, int64_t position, int64_t count) {
    const Tensor from = table.slice(position, position + count);
    std::memcpy(rows.slice(row, row + count).raw(), from.raw(), from.size_bytes());
  });
  return rows;
}

}  // namespace athanor::autograd
