#include "athanor/parallel/parameter_server/coded_push.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "athanor/parallel/compression/topk_code.h"

namespace athanor {
namespace {

std::string gradients_of(size_t bucket) {
  return "gradients " + std::to_string(bucket);
}
std::string counts_of(size_t bucket) {
  return "counts " + std::to_string(bucket);
}

std::vector<int64_t> coded_numels(const Buckets& buckets, const CompressionOptions& options) {
  std::vector<int64_t> numels;
  for (const Bucket& bucket : buckets.list)
    for (const Weight* weight : bucket.weights)
      if (is_compressed(weight->param(), options)) numels.push_back(weight->param().numel());
  return numels;
}

}  // namespace

CodedPush::CodedPush(const Buckets& buckets, Group& workers, Arena& arena, const ServerSettings& settings)
    : buckets_(buckets),
      workers_(workers),
      arena_(arena),
      roles_(settings.roles),
      code_(buckets, settings.compression),
      residue_of_(buckets.list.size()),
      feedback_(coded_numels(buckets, settings.compression), arena, settings.compression.error_feedback),
      messages_(buckets.list.size(), std::vector<Message>(static_cast<size_t>(settings.roles.servers))) {
  int64_t total = 0, most_chosen = 0, longest = 0;
  size_t residues = 0;
  for (size_t b = 0; b < buckets.list.size(); ++b) {
    int64_t chosen = 0;
    firsts_.push_back(total);
    for (const Weight* weight : buckets.list[b].weights) {
      residue_of_[b].push_back(residues);
      if (!is_compressed(weight->param(), settings.compression)) continue;
      ++residues;
      if (code_.blocks() != nullptr) continue;
      const int64_t numel = weight->param().numel();
      check(numel <= INT32_MAX, "top-k: '{}' has {} elements, expected fewer than 2^31",
            weight->param().name(), numel);
      chosen += code_.largest(weight->param());
      longest = std::max(longest, numel);
    }
    for (int server = 0; server < roles_.servers; ++server)
      total += code_.bytes(b, server, std::vector<int32_t>(code_.coded(b, server).size(), 0));
    total += 2 * chosen * static_cast<int64_t>(sizeof(int32_t));
    most_chosen = std::max(most_chosen, chosen);
  }
  codes_ = empty(arena_, {total}, Dtype::u8, Category::communication);
  if (code_.blocks() != nullptr) return;
  order_ = empty(arena_, {std::max<int64_t>(longest, 1)}, Dtype::i32, Category::workspace);
  chosen_ = empty(arena_, {2 * std::max<int64_t>(most_chosen, 1)}, Dtype::i32, Category::workspace);
}

float* CodedPush::values(size_t bucket, size_t slot, float* data) const {
  return data + buckets_.list[bucket].layout.offsets[slot];
}

void CodedPush::encode_blocks(const PushCode::Piece& piece, size_t residue, float* x, std::byte* to,
                              bool decoded) {
  const BlockCode& code = *code_.blocks();
  arena_.queue().parallel_for(code_blocks(piece.range.count()), [&](int64_t block) {
    const int64_t first = piece.range.first + block * kCodeBlock,
                  count = std::min(kCodeBlock, piece.range.last - first);
    std::byte* bytes = to + block * code.bytes;
    feedback_.encode(code, residue, first, count, x + first, bytes);
    if (!decoded) return;
    std::array<float, kCodeBlock> sent;
    code.decode(bytes, count, sent.data());
    for (int64_t i = 0; i < count; ++i) x[first + i] = 0.0f + sent[static_cast<size_t>(i)];
  });
}

void CodedPush::choose(size_t bucket, float* data, bool decoded) {
  const std::vector<Weight*>& weights = buckets_.list[bucket].weights;
  const int64_t half = chosen_.numel() / 2;
  chosen_at_.assign(weights.size(), 0);
  chosen_count_.assign(weights.size(), 0);
  int64_t at = 0;
  for (int server = 0; server < roles_.servers; ++server)
    for (const PushCode::Piece& piece : code_.coded(bucket, server)) {
      if (piece.range.first > 0) continue;  // with the first piece of a weight comes all of it
      const int64_t numel = weights[piece.slot]->param().numel(),
                    count = code_.largest(weights[piece.slot]->param());
      const size_t residue = residue_of_[bucket][piece.slot];
      float* x = values(bucket, piece.slot, data);
      int32_t *index = chosen_.data<int32_t>() + at, *value = index + half;
      feedback_.add(residue, 0, numel, x);
      take_largest(x, numel, count, order_.data<int32_t>(), index, value);
      feedback_.keep_rest(residue, x);
      chosen_at_[piece.slot] = at;
      chosen_count_[piece.slot] = count;
      at += count;
      if (!decoded) continue;
      std::fill_n(x, numel, 0.0f);
      for (int64_t i = 0; i < count; ++i) x[index[i]] = 0.0f + std::bit_cast<float>(value[i]);
    }
}

// Those of the chosen that lie in the piece: they are ascending.
void CodedPush::write_chosen(const PushCode::Piece& piece, Message& message, std::byte* to) const {
  const int32_t* begin = chosen_.data<int32_t>() + chosen_at_[piece.slot];
  const int32_t* end = begin + chosen_count_[piece.slot];
  const int32_t* first = std::lower_bound(begin, end, piece.range.first);
  const int32_t* last = std::lower_bound(first, end, piece.range.last);
  const auto count = last - first;
  const size_t bytes = static_cast<size_t>(count) * sizeof(int32_t);
  std::memcpy(to, first, bytes);
  std::memcpy(to + bytes, first + chosen_.numel() / 2, bytes);
  message.counts.push_back(static_cast<int32_t>(count));
}

void CodedPush::encode(size_t bucket, float* data, bool decoded) {
  if (code_.blocks() == nullptr) choose(bucket, data, decoded);
  std::byte* const codes = static_cast<std::byte*>(codes_.raw());
  int64_t at = firsts_[bucket];
  for (int server = 0; server < roles_.servers; ++server) {
    Message& message = messages_[bucket][static_cast<size_t>(server)];
    message = {.first = at};
    for (const PushCode::Piece& piece : code_.coded(bucket, server)) {
      if (code_.blocks() != nullptr) {
        encode_blocks(piece, residue_of_[bucket][piece.slot], values(bucket, piece.slot, data), codes + at,
                      decoded);
        at += code_blocks(piece.range.count()) * code_.blocks()->bytes;
      } else {
        write_chosen(piece, message, codes + at);
        at += 2 * static_cast<int64_t>(sizeof(int32_t)) * message.counts.back();
      }
    }
    for (const PushCode::Piece& piece : code_.exact(bucket, server)) {
      const auto bytes = static_cast<size_t>(piece.range.count()) * sizeof(float);
      std::memcpy(codes + at, values(bucket, piece.slot, data) + piece.range.first, bytes);
      at += static_cast<int64_t>(bytes);
    }
    message.bytes = at - message.first;
  }
}

void CodedPush::send(size_t bucket, Group& world, const std::function<void(Work)>& keep) {
  for (int server = 0; server < roles_.servers; ++server) {
    const Message& message = messages_[bucket][static_cast<size_t>(server)];
    const int rank = roles_.rank_of_server(server);
    if (!message.counts.empty())
      keep(
          world.send(message.counts.data(), std::ssize(message.counts), Dtype::i32, rank, counts_of(bucket)));
    if (message.bytes > 0)
      keep(world.send(static_cast<std::byte*>(codes_.raw()) + message.first, message.bytes, Dtype::u8, rank,
                      gradients_of(bucket)));
  }
}

std::vector<CompressionState> CodedPush::states() const {
  std::vector<CompressionState> states;
  for (size_t b = 0; feedback_.enabled() && b < buckets_.list.size(); ++b)
    for (int server = 0; server < roles_.servers; ++server)
      for (const PushCode::Piece& piece : code_.coded(b, server)) {
        if (piece.range.first > 0) continue;
        const Weight* weight = buckets_.list[b].weights[piece.slot];
        states.push_back({SumState::Kind::residue,
                          weight,
                          {0, weight->param().numel()},
                          feedback_.residue(residue_of_[b][piece.slot]),
                          workers_.rank(),
                          workers_.size()});
      }
  return states;
}

CodedRows::CodedRows(const Buckets& buckets, int server, Arena& arena, const ServerSettings& settings)
    : server_(server), code_(buckets, settings.compression) {
  int64_t most = 0;
  for (size_t b = 0; b < buckets.list.size(); ++b) most = std::max(most, code_.most_bytes(b, server));
  message_ = empty(arena, {std::max<int64_t>(most, 1)}, Dtype::u8, Category::communication);
}

void CodedRows::receive(Group& world, int worker, size_t bucket, const Tensor& into) {
  std::vector<int32_t> counts;
  const auto& pieces = code_.coded(bucket, server_);
  if (code_.blocks() == nullptr && !pieces.empty()) {
    counts.resize(pieces.size());
    world.recv(counts.data(), std::ssize(counts), Dtype::i32, worker, counts_of(bucket)).wait();
    for (size_t i = 0; i < counts.size(); ++i)
      check(0 <= counts[i] && counts[i] <= pieces[i].range.count(),
            "parameter server: got {} elements of {} from worker {}", counts[i], pieces[i].range.count(),
            worker);
  }
  const int64_t bytes = code_.bytes(bucket, server_, counts);
  if (bytes > 0) world.recv(message_.raw(), bytes, Dtype::u8, worker, gradients_of(bucket)).wait();
  code_.decode(bucket, server_, static_cast<const std::byte*>(message_.raw()), counts, into);
}

}  // namespace athanor
