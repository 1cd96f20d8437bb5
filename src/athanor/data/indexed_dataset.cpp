#include "athanor/data/indexed_dataset.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"

namespace athanor::data {

static_assert(std::endian::native == std::endian::little,
              "token files are read and written as they lie in memory");

namespace {

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr uint64_t kVersion = 1;
constexpr uint64_t kHeaderBytes = 34;
constexpr std::string_view kTextBytesMagic("ATHBYTES");
constexpr uint64_t kTextBytesHeaderBytes = 24;

// The arrays of the index start at byte 34, so nothing in them is aligned.
template <typename T>
T load(const std::byte* data, int64_t index = 0) {
  T value;
  std::memcpy(&value, data + static_cast<uint64_t>(index) * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void widen(const std::byte* data, std::span<int32_t> out) {
  for (size_t i = 0; i < out.size();
       ++i)  // NOLINTNEXTLINE(bugprone-signed-char-misuse): the format has signed bytes
    out[i] = static_cast<int32_t>(load<T>(data, static_cast<int64_t>(i)));
}

// What the system reads ahead of an access to a mapped file. Sequences lie far apart, and to read ahead for each of them costs
// a thousand times what its own pages do. Only advice: a refusal is of no account.
void expect_access(const MappedFile& file, int how) {
  if (file.size_bytes() > 0) ::madvise(const_cast<std::byte*>(file.data()), file.size_bytes(), how);
}

// Reads of a file from its start to its end, while this lives.
class SequentialAccess {
 public:
  explicit SequentialAccess(const MappedFile& file) : file_(file) { expect_access(file_, MADV_SEQUENTIAL); }
  ~SequentialAccess() { expect_access(file_, MADV_RANDOM); }
  SequentialAccess(const SequentialAccess&) = delete;
  SequentialAccess& operator=(const SequentialAccess&) = delete;

 private:
  const MappedFile& file_;
};

// The whole of a small file, blocks spread over a large one.
void add_blocks(Hash128& hash, const MappedFile& file) {
  constexpr uint64_t kBlockBytes = uint64_t{1} << 16, kBlocks = 64;
  if (file.size_bytes() <= kBlockBytes * kBlocks) return hash.update(file.data(), file.size_bytes());
  const uint64_t stride = (file.size_bytes() - kBlockBytes) / (kBlocks - 1);
  for (uint64_t block = 0; block < kBlocks; ++block) hash.update(file.data() + block * stride, kBlockBytes);
}

}  // namespace

const char* token_type_name(TokenType type) {
  switch (type) {
    case TokenType::u8:
      return "u8";
    case TokenType::i8:
      return "i8";
    case TokenType::i16:
      return "i16";
    case TokenType::i32:
      return "i32";
    case TokenType::i64:
      return "i64";
    case TokenType::u16:
      return "u16";
  }
  return "unknown";
}

int64_t token_size_bytes(TokenType type) {
  switch (type) {
    case TokenType::u8:
    case TokenType::i8:
      return 1;
    case TokenType::i16:
    case TokenType::u16:
      return 2;
    case TokenType::i32:
      return 4;
    case TokenType::i64:
      return 8;
  }
  fail("token type: got code {}, expected one of 1, 2, 3, 4, 5, 8", static_cast<int>(type));
}

TokenType token_type_for(int64_t vocab_size) {
  return vocab_size < 65500 ? TokenType::u16 : TokenType::i32;
}

std::string token_file_prefix(const std::string& path) {
  if (path.size() > 4 && (path.ends_with(".bin") || path.ends_with(".idx")))
    return path.substr(0, path.size() - 4);
  return path;
}

IndexedDataset::IndexedDataset(const std::string& path)
    : prefix_(token_file_prefix(path)), idx_(prefix_ + ".idx"), bin_(prefix_ + ".bin") {
  expect_access(bin_, MADV_RANDOM);
  const std::string name = prefix_ + ".idx";
  const uint64_t size_bytes = idx_.size_bytes();
  check(size_bytes >= kHeaderBytes, "'{}': got {} bytes, expected at least the {} of its header", name,
        size_bytes, kHeaderBytes);
  check(std::memcmp(idx_.data(), kMagic.data(), kMagic.size()) == 0,
        "'{}': does not begin with MMIDIDX, expected the index of a Megatron token file", name);
  const uint64_t version = load<uint64_t>(idx_.data() + 9);
  check(version == kVersion, "'{}': got version {}, expected {}", name, version, kVersion);
  const uint8_t code = load<uint8_t>(idx_.data() + 17);
  check((code >= 1 && code <= 5) || code == 8,
        "'{}': got token type {}, expected an integer type (1 to 5, or 8)", name, code);
  type_ = static_cast<TokenType>(code);

  const uint64_t sequences = load<uint64_t>(idx_.data() + 18), boundaries = load<uint64_t>(idx_.data() + 26);
  // Bounding both counts by the size first keeps the sums below from overflowing.
  check(sequences <= size_bytes / 12 && boundaries >= 1 && boundaries <= size_bytes / 8,
        "'{}': got {} sequences and {} document boundaries, expected no more than its {} bytes can hold (and "
        "at least "
        "one boundary)",
        name, sequences, boundaries, size_bytes);
  const uint64_t plain_bytes = kHeaderBytes + sequences * 12 + boundaries * 8;
  check(size_bytes == plain_bytes || size_bytes == plain_bytes + sequences,
        "'{}': got {} bytes, expected {} for {} sequences and {} document boundaries", name, size_bytes,
        plain_bytes, sequences, boundaries);
  num_sequences_ = static_cast<int64_t>(sequences);
  num_boundaries_ = static_cast<int64_t>(boundaries);
  lengths_ = idx_.data() + kHeaderBytes;
  pointers_ = lengths_ + sequences * 4;
  boundaries_ = pointers_ + sequences * 8;
  check_index(name);
  open_text_bytes();
  if (const std::string mask = prefix_ + ".loss_mask"; system_env().exists(mask))
    loss_mask_ = std::make_unique<LossMask>(mask, num_tokens_);
}

void IndexedDataset::open_text_bytes() {
  const std::string name = prefix_ + ".text_bytes";
  if (!system_env().exists(name)) return;
  auto file = std::make_unique<MappedFile>(name);
  const auto documents = static_cast<uint64_t>(num_documents());
  const bool fits = file->size_bytes() == kTextBytesHeaderBytes + documents * sizeof(int64_t) &&
                    std::memcmp(file->data(), kTextBytesMagic.data(), kTextBytesMagic.size()) == 0 &&
                    load<uint64_t>(file->data() + 8) == documents &&
                    load<uint64_t>(file->data() + 16) == static_cast<uint64_t>(num_tokens_);
  if (!fits)
    throw Error(fmt::format("'{}': does not belong to the {} tokens in {} documents of '{}.idx'", name,
                            num_tokens_, documents, prefix_),
                "remove it, or make all three files again with 'athanor dataset build'");
  for (uint64_t d = 0; d < documents; ++d)
    check(load<int64_t>(file->data() + kTextBytesHeaderBytes, static_cast<int64_t>(d)) >= 0,
          "'{}': document {} has fewer than no bytes", name, d);
  text_bytes_ = std::move(file);
}

std::optional<int64_t> IndexedDataset::text_bytes_of(int64_t document) const {
  check(document >= 0 && document < num_documents(), "'{}': document {}, expected 0 to {}", prefix_, document,
        num_documents() - 1);
  if (text_bytes_ == nullptr) return std::nullopt;
  return load<int64_t>(text_bytes_->data() + kTextBytesHeaderBytes, document);
}

std::unique_ptr<const DocumentSources> IndexedDataset::open_sources() const {
  const std::string name = prefix_ + ".sources";
  if (!system_env().exists(name)) return nullptr;
  return std::make_unique<DocumentSources>(name, num_documents(), num_tokens_);
}

void IndexedDataset::check_index(const std::string& name) {
  const int64_t item_bytes = token_size_bytes(type_);
  int64_t position = 0;  // in tokens; lengths below 2^31 and fewer than 2^60 of them cannot overflow it
  for (int64_t s = 0; s < num_sequences_; ++s) {
    const int32_t length = load<int32_t>(lengths_, s);
    const int64_t pointer = load<int64_t>(pointers_, s);
    if (length < 0) [[unlikely]]
      fail("'{}': sequence {} has length {}, expected none below zero", name, s, length);
    if (pointer != position * item_bytes) [[unlikely]]
      fail("'{}': sequence {} starts at byte {}, expected {}", name, s, pointer, position * item_bytes);
    position += length;
  }
  num_tokens_ = position;
  check(static_cast<uint64_t>(num_tokens_ * item_bytes) == bin_.size_bytes(),
        "'{}.bin': got {} bytes, expected {} for the {} tokens that its index lists", prefix_,
        bin_.size_bytes(), num_tokens_ * item_bytes, num_tokens_);
  int64_t previous = 0;
  for (int64_t d = 0; d < num_boundaries_; ++d) {
    const int64_t boundary = load<int64_t>(boundaries_, d);
    if (boundary < previous || boundary > num_sequences_ || (d == 0 && boundary != 0)) [[unlikely]]
      fail("'{}': document boundary {} is {}, expected {} to {}", name, d, boundary, previous,
           d == 0 ? 0 : num_sequences_);
    previous = boundary;
  }
  check(previous == num_sequences_, "'{}': the last document boundary is {}, expected {}", name, previous,
        num_sequences_);
  const std::byte* modes = boundaries_ + num_boundaries_ * 8;
  if (modes == idx_.data() + idx_.size_bytes()) return;
  for (int64_t s = 0; s < num_sequences_; ++s)
    if (load<int8_t>(modes, s) != 0) [[unlikely]]
      fail("'{}': sequence {} has mode {}, expected text (0)", name, s, load<int8_t>(modes, s));
}

void IndexedDataset::read(int64_t first, std::span<int32_t> out) const {
  check(first >= 0 && first <= num_tokens_ && static_cast<int64_t>(out.size()) <= num_tokens_ - first,
        "'{}.bin': tokens {} to {} are outside of its {}", prefix_, first,
        first + static_cast<int64_t>(out.size()), num_tokens_);
  if (out.empty()) return;
  const std::byte* data = bin_.data() + first * token_size_bytes(type_);
  switch (type_) {
    case TokenType::u8:
      return widen<uint8_t>(data, out);
    case TokenType::i8:
      return widen<int8_t>(data, out);
    case TokenType::i16:
      return widen<int16_t>(data, out);
    case TokenType::u16:
      return widen<uint16_t>(data, out);
    case TokenType::i32:
      return widen<int32_t>(data, out);
    case TokenType::i64:
      break;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t id = load<int64_t>(data, static_cast<int64_t>(i));
    check(id >= 0 && id <= std::numeric_limits<int32_t>::max(),
          "'{}.bin': token {} is id {}, expected 0 to 2^31 - 1", prefix_, first + static_cast<int64_t>(i),
          id);
    out[i] = static_cast<int32_t>(id);
  }
}

void IndexedDataset::read_loss_mask(int64_t first, std::span<uint8_t> out) const {
  if (loss_mask_ != nullptr) return loss_mask_->read(first, out);
  std::fill(out.begin(), out.end(), uint8_t{1});
}

int64_t IndexedDataset::document_start(int64_t document) const {
  check(document >= 0 && document < num_boundaries_, "'{}.idx': document {} is outside of its {}", prefix_,
        document, num_documents());
  const int64_t sequence = load<int64_t>(boundaries_, document);
  return sequence == num_sequences_ ? num_tokens_
                                    : load<int64_t>(pointers_, sequence) / token_size_bytes(type_);
}

std::vector<int64_t> IndexedDataset::document_starts_before(int64_t end) const {
  const int shift = std::countr_zero(static_cast<uint64_t>(token_size_bytes(type_)));
  std::vector<int64_t> starts;
  starts.reserve(static_cast<size_t>(num_boundaries_));
  for (int64_t d = 0; d < num_documents(); ++d) {
    const int64_t sequence = load<int64_t>(boundaries_, d);
    const int64_t start =
        sequence == num_sequences_ ? num_tokens_ : load<int64_t>(pointers_, sequence) >> shift;
    if (start >= end) break;
    starts.push_back(start);
  }
  starts.push_back(end);
  return starts;
}

int64_t IndexedDataset::document_of(int64_t token) const {
  check(token >= 0 && token < num_tokens_, "'{}': token {} is outside of its {}", prefix_, token,
        num_tokens_);
  int64_t first = 0, end = num_documents();  // one in [first, end) is the answer
  while (end - first > 1) {
    const int64_t middle = (first + end) / 2;
    (document_start(middle) <= token ? first : end) = middle;
  }
  return first;
}

std::string IndexedDataset::quick_hash() const {
  Hash128 hash;
  hash.update(idx_.data(), idx_.size_bytes());
  add_blocks(hash, bin_);
  if (loss_mask_ != nullptr) add_blocks(hash, loss_mask_->file());
  return hash.hex();
}

std::string IndexedDataset::full_hash() const {
  const SequentialAccess access(bin_);
  Hash128 hash;
  hash.update(idx_.data(), idx_.size_bytes());
  hash.update(bin_.data(), bin_.size_bytes());
  if (loss_mask_ != nullptr) hash.update(loss_mask_->file().data(), loss_mask_->file().size_bytes());
  return hash.hex();
}

void IndexedDataset::check_ids(int64_t vocab_size) const {
  const SequentialAccess access(bin_);
  std::array<int32_t, 4096> ids;
  for (int64_t first = 0; first < num_tokens_; first += static_cast<int64_t>(ids.size())) {
    const std::span<int32_t> part(ids.data(),
                                  static_cast<size_t>(std::min<int64_t>(ids.size(), num_tokens_ - first)));
    read(first, part);
    for (size_t i = 0; i < part.size(); ++i)
      if (part[i] < 0 || part[i] >= vocab_size) [[unlikely]]
        fail("'{}.bin': token {} is id {}, expected ids from 0 to {}", prefix_,
             first + static_cast<int64_t>(i), part[i], vocab_size - 1);
  }
}

}  // namespace athanor::data
