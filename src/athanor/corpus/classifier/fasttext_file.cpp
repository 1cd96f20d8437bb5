#include "athanor/corpus/classifier/fasttext_file.h"

#include <algorithm>
#include <cstring>

#include "athanor/base/check.h"

namespace athanor::corpus::classifier {
namespace {

constexpr int32_t kFastTextMagic = 793712314;
constexpr int64_t kMostRows = int64_t{1} << 31;  // libfasttext numbers rows by int32
constexpr int64_t kMostCounted = int64_t{1}
                                 << 49;  // below the count that stands for "none" in its Huffman tree
constexpr int64_t kCentroids = 256;

class FastTextWalk {
 public:
  FastTextWalk(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  void run() {
    need(is_fasttext_file(bytes_), "its beginning", "the mark of a fastText model");
    skip(sizeof kFastTextMagic, "its beginning");
    const auto version = take<int32_t>("its version");
    need(version == 11 || version == 12, "its version", "11 or 12");
    settings();
    dictionary();
    const bool quantized = flag("whether its input matrix is quantized");
    need(quantized || kept_ngrams_ < 0, "its dictionary", "no pruned n-grams beside a plain matrix");
    const int64_t rows = matrix(quantized, "its input matrix");
    need(rows >= words_ + rows_of_ngrams_, "its input matrix", "a row for every word and n-gram");
    const bool quantized_output = flag("whether its output matrix is quantized") && quantized;
    need(matrix(quantized_output, "its output matrix") == labels_, "its output matrix",
         "a row for every label");
    need(at_ == bytes_.size(), "its length", "nothing after the output matrix");
  }

 private:
  void need(bool holds, const char* what, const char* expected) const {
    base::check(holds, "{}: got a damaged or foreign model ({}), expected {}", name_, what, expected);
  }
  void skip(uint64_t size_bytes, const char* what) {
    need(size_bytes <= bytes_.size() - at_, what, "more bytes than the file has");
    at_ += size_bytes;
  }
  template <typename T>
  T take(const char* what) {
    const size_t at = at_;
    skip(sizeof(T), what);
    T value;
    std::memcpy(&value, bytes_.data() + at, sizeof value);
    return value;
  }
  bool flag(const char* what) {
    const auto value = take<uint8_t>(what);
    need(value <= 1, what, "0 or 1");
    return value == 1;
  }

  void settings() {
    int32_t values[12];
    for (int32_t& value : values) value = take<int32_t>("its settings");
    take<double>("its settings");
    dimension_ = values[0];
    const int32_t word_ngrams = values[5], loss = values[6], model = values[7], longest_subword = values[10];
    buckets_ = values[8];
    need(dimension_ >= 1 && dimension_ <= 1 << 20, "its dimension", "1 to 1048576");
    need(model == 3, "its kind", "a classifier (\"supervised\")");
    need(loss >= 1 && loss <= 4, "its loss", "1 to 4");
    need(word_ngrams >= 0 && word_ngrams <= 1000, "its word n-grams", "0 to 1000");
    need(buckets_ >= 0, "its buckets", "a number from 0 on");
    need(buckets_ > 0 || (word_ngrams <= 1 && longest_subword <= 0), "its buckets",
         "some, since it has n-grams");
  }

  void dictionary() {
    const auto size = take<int32_t>("its dictionary");
    words_ = take<int32_t>("its dictionary");
    labels_ = take<int32_t>("its dictionary");
    take<int64_t>("its dictionary");
    kept_ngrams_ = take<int64_t>("its dictionary");
    need(words_ >= 1 && labels_ >= 1 && words_ + labels_ == size, "its dictionary",
         "words and labels that add up");
    int64_t counted = 0;
    for (int64_t entry = 0; entry < size; ++entry) {
      const size_t end = bytes_.find('\0', at_);
      need(end != std::string_view::npos, "a word", "a zero byte at its end");
      at_ = end + 1;
      const auto count = take<int64_t>("a word");
      need(count >= 0 && count <= kMostCounted - counted, "the count of a word", "a number that can be");
      counted += count;
      need(take<uint8_t>("a word") == (entry < words_ ? 0 : 1), "a word", "words first, then labels");
    }
    rows_of_ngrams_ = kept_ngrams_ < 0 ? buckets_ : 0;
    for (int64_t i = 0; i < kept_ngrams_; ++i) {
      take<int32_t>("the n-grams that pruning kept");
      const auto row = take<int32_t>("the n-grams that pruning kept");
      need(row >= 0, "the n-grams that pruning kept", "rows from 0 on");
      rows_of_ngrams_ = std::max<int64_t>(rows_of_ngrams_, int64_t{row} + 1);
    }
  }

  int64_t matrix(bool quantized, const char* what) {
    const bool with_norms = quantized && flag(what);
    const auto rows = take<int64_t>(what);
    const auto columns = take<int64_t>(what);
    need(rows >= 0 && rows < kMostRows, what, "fewer than 2^31 rows");
    need(columns == dimension_, what, "as many columns as its dimension");
    if (!quantized) {
      skip(static_cast<uint64_t>(rows) * static_cast<uint64_t>(columns) * sizeof(float), what);
      return rows;
    }
    const auto codes = take<int32_t>(what);
    need(codes >= 0, what, "a number of codes from 0 on");
    skip(static_cast<uint64_t>(codes), what);
    need(codes == rows * quantizer(columns, what), what, "a code for every part of every row");
    if (with_norms) {
      skip(static_cast<uint64_t>(rows), what);
      quantizer(1, what);
    }
    return rows;
  }

  // Returns the number of parts that a row of so many columns is divided into.
  int64_t quantizer(int64_t columns, const char* what) {
    const auto dimension = take<int32_t>(what), parts = take<int32_t>(what), part = take<int32_t>(what),
               last_part = take<int32_t>(what);
    need(dimension == columns && parts >= 1 && last_part >= 1 && part >= last_part &&
             (int64_t{parts} - 1) * part + last_part == dimension,
         what, "parts of a row that add up to it");
    skip(static_cast<uint64_t>(columns * kCentroids) * sizeof(float), what);
    return parts;
  }

  std::string_view bytes_;
  const std::string& name_;
  size_t at_ = 0;
  int64_t dimension_ = 0, buckets_ = 0, words_ = 0, labels_ = 0, kept_ngrams_ = -1, rows_of_ngrams_ = 0;
};

}  // namespace

bool is_fasttext_file(std::string_view head) {
  return head.size() >= sizeof kFastTextMagic &&
         std::memcmp(head.data(), &kFastTextMagic, sizeof kFastTextMagic) == 0;
}

void check_fasttext_file(std::string_view bytes, const std::string& name) {
  FastTextWalk(bytes, name).run();
}

}  // namespace athanor::corpus::classifier
