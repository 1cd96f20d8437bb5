#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>

#include "athanor/base/check.h"
#include "athanor/store/json.h"
#include "athanor/store/safetensors.h"

namespace athanor::store {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

constexpr size_t kMaxTensors = size_t{1} << 20, kMaxNameBytes = 512;
constexpr int kMaxDims = 8;

struct DtypeRow {
  const char* name;
  uint64_t bits;
  std::optional<Dtype> dtype;
};
constexpr std::array<DtypeRow, 20> kDtypes = {
    {{"F32", 32, Dtype::f32},      {"BF16", 16, Dtype::bf16},    {"F16", 16, Dtype::f16},
     {"I32", 32, Dtype::i32},      {"I64", 64, Dtype::i64},      {"U8", 8, Dtype::u8},
     {"F64", 64, Dtype::f64},      {"BOOL", 8, std::nullopt},    {"I8", 8, std::nullopt},
     {"I16", 16, std::nullopt},    {"U16", 16, std::nullopt},    {"U32", 32, std::nullopt},
     {"U64", 64, std::nullopt},    {"C64", 64, std::nullopt},    {"F8_E5M2", 8, std::nullopt},
     {"F8_E4M3", 8, std::nullopt}, {"F8_E8M0", 8, std::nullopt}, {"F4", 4, std::nullopt},
     {"F6_E2M3", 6, std::nullopt}, {"F6_E3M2", 6, std::nullopt}}};

std::string shown(const std::string& name) {
  return name.size() <= 100 ? name : name.substr(0, 97) + "...";
}

// Reads the header event by event: a malformed one is refused at its first fault, before the parser builds anything
// large.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(const std::string& file, uint64_t data_bytes) : file_(file), data_bytes_(data_bytes) {}

  bool start_object(size_t) override {
    if (place_ == Place::start) return go(Place::names);
    if (place_ == Place::name) return go(in_metadata_ ? Place::metadata : Place::fields);
    return misplaced("an object");
  }
  bool key(string_t& key) override {
    if (place_ == Place::names) {
      check(seen_.size() < kMaxTensors, "'{}': more than {} tensors", file_, kMaxTensors);
      check(key.size() <= kMaxNameBytes, "'{}': tensor '{}': got a name of {} bytes, expected at most {}",
            file_, shown(key), key.size(), kMaxNameBytes);
      check(seen_.insert(key).second, "'{}': tensor '{}' is given twice", file_, shown(key));
      in_metadata_ = key == "__metadata__";
      current_ = {};
      current_.name = key;
      has_dtype_ = has_shape_ = has_offsets_ = false;
      return go(Place::name);
    }
    if (place_ == Place::metadata) {
      check(header_.metadata.emplace(key, "").second, "'{}': __metadata__ '{}' is given twice", file_,
            shown(key));
      current_.name = key;
      return go(Place::metadata_value);
    }
    bool* has = key == "dtype"          ? &has_dtype_
                : key == "shape"        ? &has_shape_
                : key == "data_offsets" ? &has_offsets_
                                        : nullptr;
    check(has != nullptr, "'{}': tensor '{}': got the key '{}', expected dtype, shape or data_offsets", file_,
          shown(current_.name), shown(key));
    check(!*has, "'{}': tensor '{}': '{}' is given twice", file_, shown(current_.name), key);
    *has = true;
    return go(key == "dtype" ? Place::dtype : key == "shape" ? Place::before_shape : Place::before_offsets);
  }
  bool string(string_t& text) override {
    if (place_ == Place::metadata_value) {
      header_.metadata[current_.name] = text;
      return go(Place::metadata);
    }
    if (place_ != Place::dtype) return misplaced("a string");
    const auto row = std::find_if(kDtypes.begin(), kDtypes.end(), [&](auto& r) { return text == r.name; });
    check(row != kDtypes.end(), "'{}': tensor '{}': got the dtype '{}', expected F32, BF16, F16 or the like",
          file_, shown(current_.name), shown(text));
    current_.dtype_name = text;
    current_.dtype = row->dtype;
    bits_ = row->bits;
    return go(Place::fields);
  }
  bool start_array(size_t) override {
    numbers_.clear();
    if (place_ == Place::before_shape) return go(Place::shape);
    if (place_ == Place::before_offsets) return go(Place::offsets);
    return misplaced("an array");
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::shape && place_ != Place::offsets) return misplaced("a number");
    const size_t most = place_ == Place::shape ? kMaxDims : 2;
    check(numbers_.size() < most, "'{}': tensor '{}': more than {} {}", file_, shown(current_.name), most,
          place_ == Place::shape ? "dimensions" : "data_offsets");
    numbers_.push_back(value);
    return true;
  }
  bool end_array() override {
    (place_ == Place::shape ? shape_ : offsets_) = numbers_;
    return go(Place::fields);
  }
  bool end_object() override {
    if (place_ == Place::fields) {
      finish_tensor();
      return go(Place::names);
    }
    return go(place_ == Place::metadata ? Place::names : Place::end);
  }
  bool null() override { return misplaced("null"); }
  bool boolean(bool) override { return misplaced("a boolean"); }
  bool number_integer(number_integer_t value) override {
    fail("'{}': tensor '{}': got {}, expected no negative number", file_, shown(current_.name), value);
  }
  bool number_float(number_float_t, const string_t& text) override {
    fail("'{}': tensor '{}': got {}, expected an integer", file_, shown(current_.name), shown(text));
  }
  bool binary(binary_t&) override { return misplaced("binary data"); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    fail("'{}': the header is no JSON: {}", file_, shown(std::string(json_reason(error))));
  }

  SafetensorsHeader finish() {
    check(place_ == Place::end, "'{}': the header ends too early", file_);
    std::stable_sort(header_.tensors.begin(), header_.tensors.end(),
                     [](auto& a, auto& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
    uint64_t next = 0;
    for (const StoredTensor& tensor : header_.tensors) {
      check(tensor.begin == next, "'{}': tensor '{}': got data at byte {}, expected it at {} ({})", file_,
            shown(tensor.name), tensor.begin, next, tensor.begin < next ? "overlap" : "hole");
      next = tensor.end;
    }
    check(next == data_bytes_, "'{}': got {} bytes of data, expected {}", file_, data_bytes_, next);
    return std::move(header_);
  }

 private:
  enum class Place {
    start,
    names,
    name,
    metadata,
    metadata_value,
    fields,
    dtype,
    before_shape,
    shape,
    before_offsets,
    offsets,
    end
  };
  bool go(Place place) {
    place_ = place;
    return true;
  }
  [[noreturn]] bool misplaced(const char* what) const {
    fail("'{}': tensor '{}': {} stands where none may", file_, shown(current_.name), what);
  }
  void finish_tensor() {
    const std::string name = shown(current_.name);
    check(has_dtype_ && has_shape_ && has_offsets_, "'{}': tensor '{}': {} is missing", file_, name,
          !has_dtype_   ? "dtype"
          : !has_shape_ ? "shape"
                        : "data_offsets");
    check(shape_.size() <= Shape::kMaxDims, "'{}': tensor '{}': got {} dimensions, expected at most {}",
          file_, name, shape_.size(), Shape::kMaxDims);
    uint64_t bits = bits_;
    for (const uint64_t length : shape_) {
      check(length <= INT64_MAX && !__builtin_mul_overflow(bits, length, &bits) && bits <= INT64_MAX,
            "'{}': tensor '{}': its shape is too large", file_, name);
      current_.shape.push_back(static_cast<int64_t>(length));
    }
    check(bits % 8 == 0, "'{}': tensor '{}': got {} bits, expected whole bytes", file_, name, bits);
    check(offsets_.size() == 2, "'{}': tensor '{}': got {} data_offsets, expected 2", file_, name,
          offsets_.size());
    current_.begin = offsets_[0];
    current_.end = offsets_[1];
    check(current_.begin <= current_.end && current_.end <= data_bytes_,
          "'{}': tensor '{}': data_offsets [{},{}] outside of {} bytes of data", file_, name, offsets_[0],
          offsets_[1], data_bytes_);
    check(current_.size_bytes() == bits / 8, "'{}': tensor '{}': got {} bytes, expected {} for {} {}", file_,
          name, current_.size_bytes(), bits / 8, current_.dtype_name, current_.shape);
    header_.tensors.push_back(current_);
  }

  std::string file_;
  uint64_t data_bytes_;
  SafetensorsHeader header_;
  std::set<std::string> seen_;
  Place place_ = Place::start;
  StoredTensor current_;
  bool in_metadata_ = false, has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  uint64_t bits_ = 0;
  std::vector<uint64_t> numbers_, shape_, offsets_;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes,
                                           const std::string& file) {
  check(!json.empty() && json.front() == '{', "'{}': the header starts with no '{{'; is it safetensors?",
        file);
  HeaderReader reader(file, data_bytes);
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  return reader.finish();
}

std::string make_safetensors_header(std::vector<StoredTensor>& tensors,
                                    const std::map<std::string, std::string>& metadata) {
  check(tensors.size() <= kMaxTensors, "safetensors: got {} tensors, expected at most {}", tensors.size(),
        kMaxTensors);
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    const size_t a_size = size_of(*a.dtype), b_size = size_of(*b.dtype);
    return a_size != b_size ? a_size > b_size : a.name < b.name;
  });
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  uint64_t next = 0;
  for (StoredTensor& tensor : tensors) {
    check(!tensor.name.empty() && tensor.name.size() <= kMaxNameBytes && tensor.name != "__metadata__",
          "safetensors: got the tensor name '{}', expected 1 to {} bytes", shown(tensor.name), kMaxNameBytes);
    check(&tensor == tensors.data() || (&tensor)[-1].name != tensor.name,
          "safetensors: tensor '{}' is given twice", shown(tensor.name));
    tensor.dtype_name = safetensors_name(*tensor.dtype);
    tensor.begin = next;
    next += static_cast<uint64_t>(tensor.shape.numel()) * size_of(*tensor.dtype);
    tensor.end = next;
    auto shape = nlohmann::ordered_json::array();
    for (int i = 0; i < tensor.shape.dims(); ++i) shape.push_back(tensor.shape[i]);
    nlohmann::ordered_json fields = {{"dtype", tensor.dtype_name}, {"shape", std::move(shape)}};
    fields["data_offsets"] = {tensor.begin, tensor.end};
    json.get_ptr<nlohmann::ordered_json::object_t*>()->emplace_back(tensor.name, std::move(fields));
  }
  std::string text;
  try {
    text = json.dump();
  } catch (const nlohmann::json::exception& error) {
    fail("safetensors: a name is not UTF-8: {}", error.what());
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::string bytes(sizeof(length), '\0');
  std::copy_n(reinterpret_cast<const char*>(&length), sizeof(length), bytes.data());
  return bytes + text;
}

const char* safetensors_name(Dtype dtype) {
  for (const DtypeRow& row : kDtypes)
    if (row.dtype == dtype) return row.name;
  return "?";
}

}  // namespace athanor::store
