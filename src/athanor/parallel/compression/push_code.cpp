#include "athanor/parallel/compression/push_code.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "athanor/parallel/compression/compressed_gradients.h"
#include "athanor/parallel/compression/topk_code.h"

namespace athanor {
namespace {

constexpr int64_t kFloat = sizeof(float);

void decode_blocks(const Queue& queue, const BlockCode& code, const std::byte* message, float* x,
                   int64_t count) {
  queue.parallel_for(code_blocks(count), [&](int64_t block) {
    std::array<float, kCodeBlock> decoded;
    const int64_t first = block * kCodeBlock, of_block = std::min(kCodeBlock, count - first);
    code.decode(message + block * code.bytes, of_block, decoded.data());
    for (int64_t i = 0; i < of_block; ++i) x[first + i] = 0.0f + decoded[static_cast<size_t>(i)];
  });
}

void place_largest(const std::byte* message, int64_t count, float* x) {
  for (int64_t i = 0; i < count; ++i) {
    int32_t index = 0;
    float value = 0.0f;
    std::memcpy(&index, message + i * kFloat, sizeof(index));
    std::memcpy(&value, message + (count + i) * kFloat, sizeof(value));
    x[index] = 0.0f + value;
  }
}

}  // namespace

PushCode::PushCode(const Buckets& buckets, const CompressionOptions& options)
    : buckets_(&buckets), ratio_(options.ratio), rows_(buckets.list.size()) {
  if (options.kind == Compression::bf16) blocks_ = &bf16_code();
  if (options.kind == Compression::int8) blocks_ = &int8_code();
  check(blocks_ != nullptr || options.kind == Compression::topk,
        "parameter server: got a compression of sums over ranks, expected bf16, int8 or top-k");
  for (size_t b = 0; b < rows_.size(); ++b) {
    const Bucket& bucket = buckets.list[b];
    rows_[b].resize(static_cast<size_t>(bucket.layout.rows));
    for (int server = 0; server < bucket.layout.rows; ++server)
      for (size_t slot = 0; slot < bucket.weights.size(); ++slot) {
        const FlatRange range = bucket.layout.piece(slot, server);
        if (range.count() == 0) continue;
        Row& row = rows_[b][static_cast<size_t>(server)];
        (is_compressed(bucket.weights[slot]->param(), options) ? row.coded : row.exact)
            .push_back({slot, range, bucket.layout.start_in_row(slot, server)});
      }
  }
}

int64_t PushCode::largest(const Param& param) const {
  return topk_count(param.numel(), ratio_);
}

int64_t PushCode::bytes(size_t bucket, int server, std::span<const int32_t> counts) const {
  int64_t bytes = 0;
  for (size_t i = 0; i < coded(bucket, server).size(); ++i)
    bytes += blocks_ != nullptr ? code_blocks(coded(bucket, server)[i].range.count()) * blocks_->bytes
                                : 2 * kFloat * int64_t{counts[i]};
  for (const Piece& piece : exact(bucket, server)) bytes += kFloat * piece.range.count();
  return bytes;
}

int64_t PushCode::most_bytes(size_t bucket, int server) const {
  std::vector<int32_t> counts;
  for (const Piece& piece : coded(bucket, server))
    counts.push_back(static_cast<int32_t>(
        std::min(piece.range.count(), largest(buckets_->list[bucket].weights[piece.slot]->param()))));
  return bytes(bucket, server, counts);
}

void PushCode::decode(size_t bucket, int server, const std::byte* message, std::span<const int32_t> counts,
                      const Tensor& row) const {
  auto* x = row.data<float>();
  std::fill_n(x, row.numel(), 0.0f);
  for (size_t i = 0; i < coded(bucket, server).size(); ++i) {
    const Piece& piece = coded(bucket, server)[i];
    if (blocks_ != nullptr) {
      decode_blocks(row.queue(), *blocks_, message, x + piece.at, piece.range.count());
      message += code_blocks(piece.range.count()) * blocks_->bytes;
    } else {
      place_largest(message, counts[i], x + piece.at - piece.range.first);
      message += 2 * kFloat * int64_t{counts[i]};
    }
  }
  for (const Piece& piece : exact(bucket, server)) {
    std::memcpy(x + piece.at, message, static_cast<size_t>(piece.range.count()) * sizeof(float));
    message += kFloat * piece.range.count();
  }
}

}  // namespace athanor
