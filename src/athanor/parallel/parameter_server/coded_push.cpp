#include "athanor/parallel/parameter_server/coded_push.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "athanor/base/check.h"

namespace athanor::parallel::parameter_server {
namespace {

std::string gradients_of(size_t bucket) {
  return "gradients " + std::to_string(bucket);
}

const BlockCode& block_code(Compression kind) {
  check(kind == Compression::bf16 || kind == Compression::int8,
        "parameter server: got a compression of sums over ranks, expected bf16 or int8");
  return kind == Compression::bf16 ? bf16_code() : int8_code();
}

int64_t num_blocks(int64_t count) {
  return (count + kCodeBlock - 1) / kCodeBlock;
}

// Calls body(block, first, count) for each block of numel elements.
template <typename Body>
void for_blocks(const Queue& queue, int64_t numel, const Body& body) {
  queue.parallel_for(num_blocks(numel), [&](int64_t block) {
    const int64_t first = block * kCodeBlock;
    body(block, first, std::min(kCodeBlock, numel - first));
  });
}

void decode_block(const BlockCode& code, const std::byte* bytes, int64_t count, float* x) {
  std::array<float, kCodeBlock> decoded;
  code.decode(bytes, count, decoded.data());
  for (int64_t i = 0; i < count; ++i) x[i] = 0.0f + decoded[static_cast<size_t>(i)];
}

std::vector<int64_t> numels_of(const std::vector<const Weight*>& weights) {
  std::vector<int64_t> numels;
  for (const Weight* weight : weights) numels.push_back(weight->param().numel());
  return numels;
}

}  // namespace

PushCode::PushCode(const Buckets& buckets, const CompressionOptions& options)
    : blocks_(block_code(options.kind)) {
  for (const Bucket& bucket : buckets.list) {
    auto& rows = rows_.emplace_back(static_cast<size_t>(bucket.layout.rows));
    for (int server = 0; server < bucket.layout.rows; ++server)
      for (size_t slot = 0; slot < bucket.weights.size(); ++slot) {
        const FlatRange range = bucket.layout.piece(slot, server);
        if (range.count() == 0) continue;
        const bool is_coded = is_compressed(bucket.weights[slot]->param(), options);
        const int64_t bytes = is_coded ? num_blocks(range.count()) * blocks_.bytes
                                       : range.count() * static_cast<int64_t>(sizeof(float));
        rows[static_cast<size_t>(server)].push_back(
            {slot, range, bucket.layout.start_in_row(slot, server), is_coded, bytes});
      }
  }
}

int64_t PushCode::bytes(size_t bucket, int server) const {
  int64_t bytes = 0;
  for (const Piece& piece : row(bucket, server)) bytes += piece.bytes;
  return bytes;
}

CodedPush::CodedPush(const Buckets& buckets, Group& workers, Arena& arena, const ServerSettings& settings)
    : buckets_(buckets),
      workers_(workers),
      arena_(arena),
      roles_(settings.roles),
      residual_of_(buckets.list.size()),
      code_(buckets, settings.compression),
      feedback_({}, arena, false) {
  int64_t total = 0;
  for (size_t b = 0; b < buckets.list.size(); ++b) {
    firsts_.push_back(total);
    for (int server = 0; server < roles_.servers; ++server) total += code_.bytes(b, server);
    for (const Weight* weight : buckets.list[b].weights) {
      residual_of_[b].push_back(coded_.size());
      if (is_compressed(weight->param(), settings.compression)) coded_.push_back(weight);
    }
  }
  feedback_ = ErrorFeedback(numels_of(coded_), arena, settings.compression.error_feedback);
  codes_ = empty(arena_, {total}, Dtype::u8, Category::communication);
}

void CodedPush::encode_blocks(const PushCode::Piece& piece, size_t residual, float* x, std::byte* to,
                              bool decoded) {
  const BlockCode& code = code_.blocks();
  for_blocks(arena_.queue(), piece.range.count(), [&](int64_t block, int64_t first, int64_t count) {
    std::byte* bytes = to + block * code.bytes;
    feedback_.encode(code, residual, piece.range.first + first, count, x + first, bytes);
    if (decoded) decode_block(code, bytes, count, x + first);
  });
}

void CodedPush::encode(size_t bucket, float* data, bool decoded) {
  std::byte* to = static_cast<std::byte*>(codes_.raw()) + firsts_[bucket];
  for (int server = 0; server < roles_.servers; ++server)
    for (const PushCode::Piece& piece : code_.row(bucket, server)) {
      float* x = data + buckets_.list[bucket].layout.offsets[piece.slot] + piece.range.first;
      if (piece.is_coded)
        encode_blocks(piece, residual_of_[bucket][piece.slot], x, to, decoded);
      else
        std::memcpy(to, x, static_cast<size_t>(piece.bytes));
      to += piece.bytes;
    }
}

void CodedPush::send(size_t bucket, Group& world, const std::function<void(Work)>& keep) {
  const std::byte* at = static_cast<std::byte*>(codes_.raw()) + firsts_[bucket];
  for (int server = 0; server < roles_.servers; ++server) {
    const int64_t bytes = code_.bytes(bucket, server);
    if (bytes > 0)
      keep(world.send(at, bytes, Dtype::u8, roles_.rank_of_server(server), gradients_of(bucket)));
    at += bytes;
  }
}

std::vector<ExchangeState> CodedPush::states() const {
  std::vector<ExchangeState> states;
  for (size_t i = 0; feedback_.enabled() && i < coded_.size(); ++i)
    states.push_back({StateKind::residual,
                      coded_[i],
                      {0, coded_[i]->param().numel()},
                      feedback_.residual(i),
                      workers_.rank(),
                      workers_.size()});
  return states;
}

CodedRows::CodedRows(const Buckets& buckets, int server, Arena& arena, const ServerSettings& settings)
    : server_(server), code_(buckets, settings.compression) {
  int64_t most = 0;
  for (size_t b = 0; b < buckets.list.size(); ++b) most = std::max(most, code_.bytes(b, server));
  message_ = empty(arena, {std::max<int64_t>(most, 1)}, Dtype::u8, Category::communication);
}

void CodedRows::receive(Group& world, int worker, size_t bucket, const Tensor& into) {
  if (const int64_t bytes = code_.bytes(bucket, server_); bytes > 0)
    world.recv(message_.raw(), bytes, Dtype::u8, worker, gradients_of(bucket)).wait();
  const auto* from = static_cast<const std::byte*>(message_.raw());
  auto* row = into.data<float>();
  std::fill_n(row, into.numel(), 0.0f);
  const BlockCode& code = code_.blocks();
  for (const PushCode::Piece& piece : code_.row(bucket, server_)) {
    float* x = row + piece.at;
    if (piece.is_coded)
      for_blocks(into.queue(), piece.range.count(), [&](int64_t block, int64_t first, int64_t count) {
        decode_block(code, from + block * code.bytes, count, x + first);
      });
    else
      std::memcpy(x, from, static_cast<size_t>(piece.bytes));
    from += piece.bytes;
  }
}

}  // namespace athanor::parallel::parameter_server
