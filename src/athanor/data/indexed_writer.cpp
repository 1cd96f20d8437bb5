#include <unistd.h>

#include <algorithm>
#include <limits>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"
#include "athanor/data/indexed_dataset.h"

namespace athanor::data {
namespace {

template <typename T>
void append_value(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

constexpr const char* kSuffixes[] = {".bin", ".idx", ".text_bytes", ".loss_mask", ".sources"};

// Appends values in pieces; end() the last one.
template <typename T>
class Values {
 public:
  explicit Values(WritableFile& file) : file_(file) {}
  void add(T value) {
    append_value(piece_, value);
    if (piece_.size() >= (size_t{1} << 16)) end();
  }
  void end() {
    file_.append(piece_);
    piece_.clear();
  }

 private:
  WritableFile& file_;
  std::string piece_;
};

// In pieces: a mapped file would count as memory of the process.
void add_file(Env& env, const std::string& path, Hash128& hash) {
  const auto file = env.open(path);
  std::string piece(size_t{1} << 20, '\0');
  for (uint64_t at = 0; at < file->size_bytes(); at += piece.size()) {
    piece.resize(static_cast<size_t>(std::min<uint64_t>(piece.size(), file->size_bytes() - at)));
    file->read(at, piece.data(), piece.size());
    hash.update(piece);
  }
}

}  // namespace

IndexedWriter::IndexedWriter(Env& env, const std::string& prefix, int64_t vocab_size,
                             const std::string& temporary)
    : env_(env),
      prefix_(prefix),
      // Two processes that write the same files must not write into each other's.
      temporary_(temporary.empty() ? prefix : temporary),
      temporary_end_(fmt::format(".tmp{}", ::getpid())),
      vocab_size_(vocab_size),
      type_(token_type_for(vocab_size)),
      lengths_(env, temporary_of(".lengths")),
      text_bytes_(env, temporary_of(".bytes")),
      mask_(env, temporary_of(".loss_mask")),
      sources_(env, temporary_of(".sources")) {
  check(vocab_size >= 1 && vocab_size <= std::numeric_limits<int32_t>::max(),
        "'{}': got a vocabulary of {}, expected 1 to 2^31 - 1", prefix, vocab_size);
  bin_ = env_.create(temporary_of(".bin"));
}

IndexedWriter::~IndexedWriter() {
  if (finished_) return;
  try {
    bin_.reset();
    lengths_.remove();
    text_bytes_.remove();
    for (const char* suffix : kSuffixes) env_.remove_all(temporary_of(suffix));
  } catch (const Failure&) {  // the error that brought us here is the one worth reporting
  }
}

void IndexedWriter::add_document(std::span<const int32_t> ids, std::optional<int64_t> text_bytes,
                                 std::span<const uint8_t> loss_mask, const DocumentSource* source) {
  check(!synced_, "'{}': is finished, expected no more documents", prefix_);
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
  if (text_bytes && text_bytes_.count() == lengths_.count()) text_bytes_.add(*text_bytes);
  if (source != nullptr && sources_.num_documents() == lengths_.count()) sources_.add(*source);
  lengths_.add(static_cast<int64_t>(ids.size()));
  num_tokens_ += static_cast<int64_t>(ids.size());
}

void IndexedWriter::add_documents(const IndexedDataset& part) {
  check(!synced_, "'{}': is finished, expected no more documents", prefix_);
  check(part.type() == type_, "'{}': is of type {}, expected {} as '{}'", part.prefix(),
        token_type_name(part.type()), token_type_name(type_), prefix_);
  const auto sources = part.open_sources();
  if (sources == nullptr && part.num_documents() > 0 && untraced_part_.empty())
    untraced_part_ = part.prefix();
  std::vector<uint8_t> mask;
  for (int64_t d = 0; d < part.num_documents(); ++d) {
    const int64_t first = part.document_start(d), tokens = part.document_start(d + 1) - first;
    if (part.has_loss_mask()) {
      mask.resize(static_cast<size_t>(tokens));
      part.read_loss_mask(first, mask);
    }
    mask_.add(tokens, mask);
    if (const auto bytes = part.text_bytes_of(d); bytes && text_bytes_.count() == lengths_.count())
      text_bytes_.add(*bytes);
    if (sources != nullptr && sources_.num_documents() == lengths_.count()) sources_.add(sources->of(d));
    lengths_.add(tokens);
  }
  bin_->append(part.bin().data(), part.bin().size_bytes());
  num_tokens_ += part.num_tokens();
}

void IndexedWriter::write_index() {
  const auto idx = env_.create(temporary_of(".idx"));
  std::string header("MMIDIDX\0\0", 9);
  append_value<uint64_t>(header, 1);
  append_value<uint8_t>(header, static_cast<uint8_t>(type_));
  append_value<uint64_t>(header, static_cast<uint64_t>(num_documents()));
  append_value<uint64_t>(header, static_cast<uint64_t>(num_documents()) + 1);
  idx->append(header);
  Values<int32_t> lengths(*idx);
  lengths_.for_each([&](int64_t length) { lengths.add(static_cast<int32_t>(length)); });
  lengths.end();
  Values<int64_t> pointers(*idx);
  int64_t pointer = 0;
  lengths_.for_each([&](int64_t length) {
    pointers.add(pointer);
    pointer += length * token_size_bytes(type_);
  });
  pointers.end();
  Values<int64_t> boundaries(*idx);
  for (int64_t d = 0; d <= num_documents(); ++d) boundaries.add(d);
  boundaries.end();
  idx->sync();
  idx->close();
}

void IndexedWriter::write_text_bytes() {
  const auto file = env_.create(temporary_of(".text_bytes"));
  std::string header("ATHBYTES");
  append_value<uint64_t>(header, static_cast<uint64_t>(text_bytes_.count()));
  append_value<uint64_t>(header, static_cast<uint64_t>(num_tokens_));
  file->append(header);
  Values<int64_t> bytes(*file);
  text_bytes_.for_each([&](int64_t of_document) { bytes.add(of_document); });
  bytes.end();
  file->sync();
  file->close();
}

void IndexedWriter::sync() {
  check(!synced_, "'{}': is finished already", prefix_);
  bin_->sync();
  bin_->close();
  write_index();
  has_text_bytes_ = text_bytes_.count() == lengths_.count();
  if (has_text_bytes_) write_text_bytes();
  has_loss_mask_ = mask_.finish();
  has_sources_ = num_documents() > 0 && sources_.num_documents() == num_documents();
  if (has_sources_) sources_.finish(num_tokens_);
  lengths_.remove();
  text_bytes_.remove();
  synced_ = true;
}

std::string IndexedWriter::full_hash() const {
  check(synced_, "'{}': is not on the disk yet, expected sync() before its hash", prefix_);
  Hash128 hash;
  add_file(env_, temporary_of(".idx"), hash);
  add_file(env_, temporary_of(".bin"), hash);
  if (has_loss_mask_) add_file(env_, temporary_of(".loss_mask"), hash);
  return hash.hex();
}

void IndexedWriter::finish() {
  check(!finished_, "'{}': is finished already", prefix_);
  if (!synced_) sync();
  // So that neither a kill nor a power cut in between can leave an old index on new ids: the old index is gone
  // for good before the ids change, and the new one comes after them.
  if (env_.exists(prefix_ + ".idx")) {
    env_.remove_all(prefix_ + ".idx");
    env_.sync_folder(parent_folder(prefix_));
  }
  for (const char* suffix : {".text_bytes", ".loss_mask", ".sources"}) env_.remove_all(prefix_ + suffix);
  const auto publish = [&](const char* suffix) { env_.rename(temporary_of(suffix), prefix_ + suffix); };
  publish(".bin");
  if (has_text_bytes_) publish(".text_bytes");
  if (has_loss_mask_) publish(".loss_mask");
  if (has_sources_) publish(".sources");
  env_.sync_folder(parent_folder(prefix_));
  publish(".idx");
  env_.sync_folder(parent_folder(prefix_));
  finished_ = true;
}

}  // namespace athanor::data
