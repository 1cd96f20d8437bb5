#include <unistd.h>

#include <algorithm>
#include <limits>

#include "athanor/base/check.h"
#include "athanor/data/indexed_dataset.h"

namespace athanor::data {
namespace {

template <typename T>
void append_value(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Appends n values in pieces, so that the index of a large corpus is not held in memory a second time.
template <typename T, typename Next>
void append_array(WritableFile& file, int64_t count, Next next) {
  std::string piece;
  for (int64_t i = 0; i < count; ++i) {
    append_value<T>(piece, next(i));
    if (piece.size() >= (size_t{1} << 16)) {
      file.append(piece);
      piece.clear();
    }
  }
  file.append(piece);
}

}  // namespace

IndexedWriter::IndexedWriter(Env& env, const std::string& prefix, int64_t vocab_size)
    : env_(env),
      prefix_(prefix),
      // Two processes that write the same files must not write into each other's.
      bin_temporary_(fmt::format("{}.bin.tmp{}", prefix, ::getpid())),
      idx_temporary_(fmt::format("{}.idx.tmp{}", prefix, ::getpid())),
      bytes_temporary_(fmt::format("{}.text_bytes.tmp{}", prefix, ::getpid())),
      vocab_size_(vocab_size),
      type_(token_type_for(vocab_size)),
      mask_(env, fmt::format("{}.loss_mask.tmp{}", prefix, ::getpid())) {
  check(vocab_size >= 1 && vocab_size <= std::numeric_limits<int32_t>::max(),
        "'{}': got a vocabulary of {}, expected 1 to 2^31 - 1", prefix, vocab_size);
  bin_ = env_.create(bin_temporary_);
}

IndexedWriter::~IndexedWriter() {
  if (finished_) return;
  try {
    bin_.reset();
    env_.remove_all(bin_temporary_);
    env_.remove_all(idx_temporary_);
    env_.remove_all(bytes_temporary_);
    env_.remove_all(mask_.path());
  } catch (const Failure&) {  // the error that brought us here is the one worth reporting
  }
}

void IndexedWriter::add_document(std::span<const int32_t> ids, std::optional<int64_t> text_bytes,
                                 std::span<const uint8_t> loss_mask) {
  check(!finished_, "'{}': is finished, expected no more documents", prefix_);
  check(ids.size() <= static_cast<size_t>(std::numeric_limits<int32_t>::max()),
        "'{}': document {} has {} tokens, expected fewer than 2^31", prefix_, num_documents(), ids.size());
  for (const int32_t id : ids)
    if (id < 0 || id >= vocab_size_) [[unlikely]]
      fail("'{}': document {} has the token id {}, expected ids from 0 to {}", prefix_, num_documents(), id,
           vocab_size_ - 1);
  mask_.add(static_cast<int64_t>(ids.size()), loss_mask);  // first: it refuses a mask of another size
  if (type_ == TokenType::u16) {
    narrow_.assign(ids.begin(), ids.end());
    bin_->append(narrow_.data(), narrow_.size() * sizeof(uint16_t));
  } else {
    bin_->append(ids.data(), ids.size() * sizeof(int32_t));
  }
  if (text_bytes && text_bytes_.size() == lengths_.size()) text_bytes_.push_back(*text_bytes);
  lengths_.push_back(static_cast<int32_t>(ids.size()));
  num_tokens_ += static_cast<int64_t>(ids.size());
}

void IndexedWriter::write_index() {
  const auto idx = env_.create(idx_temporary_);
  std::string header("MMIDIDX\0\0", 9);
  append_value<uint64_t>(header, 1);
  append_value<uint8_t>(header, static_cast<uint8_t>(type_));
  append_value<uint64_t>(header, lengths_.size());
  append_value<uint64_t>(header, lengths_.size() + 1);
  idx->append(header);
  append_array<int32_t>(*idx, num_documents(), [&](int64_t s) { return lengths_[static_cast<size_t>(s)]; });
  int64_t pointer = 0;
  append_array<int64_t>(*idx, num_documents(), [&](int64_t s) {
    const int64_t here = pointer;
    pointer += lengths_[static_cast<size_t>(s)] * token_size_bytes(type_);
    return here;
  });
  append_array<int64_t>(*idx, num_documents() + 1, [](int64_t d) { return d; });
  idx->sync();
  idx->close();
}

void IndexedWriter::write_text_bytes() {
  const auto file = env_.create(bytes_temporary_);
  std::string header("ATHBYTES");
  append_value<uint64_t>(header, text_bytes_.size());
  append_value<uint64_t>(header, static_cast<uint64_t>(num_tokens_));
  file->append(header);
  append_array<int64_t>(*file, num_documents(),
                        [&](int64_t d) { return text_bytes_[static_cast<size_t>(d)]; });
  file->sync();
  file->close();
}

void IndexedWriter::finish() {
  check(!finished_, "'{}': is finished already", prefix_);
  bin_->sync();
  bin_->close();
  write_index();
  const bool has_text_bytes = text_bytes_.size() == lengths_.size();
  if (has_text_bytes) write_text_bytes();
  const bool has_loss_mask = mask_.finish();
  // So that neither a kill nor a power cut in between can leave an old index on new ids: the old index is gone
  // for good before the ids change, and the new one comes after them.
  if (env_.exists(prefix_ + ".idx")) {
    env_.remove_all(prefix_ + ".idx");
    env_.sync_folder(parent_folder(prefix_));
  }
  env_.remove_all(prefix_ + ".text_bytes");
  env_.remove_all(prefix_ + ".loss_mask");
  env_.rename(bin_temporary_, prefix_ + ".bin");
  if (has_text_bytes) env_.rename(bytes_temporary_, prefix_ + ".text_bytes");
  if (has_loss_mask) env_.rename(mask_.path(), prefix_ + ".loss_mask");
  env_.sync_folder(parent_folder(prefix_));
  env_.rename(idx_temporary_, prefix_ + ".idx");
  env_.sync_folder(parent_folder(prefix_));
  finished_ = true;
}

}  // namespace athanor::data
