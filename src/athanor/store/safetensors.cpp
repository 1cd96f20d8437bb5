#include "athanor/store/safetensors.h"

#include <cstring>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"

namespace athanor::store {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr uint64_t kLargeBytes = uint64_t{16} << 20;
constexpr int64_t kPiece = int64_t{1} << 18;  // elements converted at a time

template <typename T>
void widen(const void* data, int64_t count, float* values) {
  const auto* bytes = static_cast<const char*>(data);
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes + static_cast<size_t>(i) * sizeof(T), sizeof(T));
    if constexpr (std::is_same_v<T, double>) {
      values[i] = static_cast<float>(value);
    } else {
      values[i] = to_float(value);
    }
  }
}

template <typename T>
void narrow(const float* values, int64_t count, void* data) {
  auto* bytes = static_cast<char*>(data);
  for (int64_t i = 0; i < count; ++i) {
    const T value = from_float<T>(values[i]);
    std::memcpy(bytes + static_cast<size_t>(i) * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

void convert_to_f32(Dtype dtype, const void* data, int64_t count, float* values) {
  switch (dtype) {
    case Dtype::f32:
      if (count > 0) std::memcpy(values, data, static_cast<size_t>(count) * sizeof(float));
      return;
    case Dtype::bf16:
      return widen<Bf16>(data, count, values);
    case Dtype::f16:
      return widen<F16>(data, count, values);
    case Dtype::f64:
      return widen<double>(data, count, values);
    default:
      fail("convert: got {}, expected a floating-point type", name_of(dtype));
  }
}

void convert_from_f32(Dtype dtype, const float* values, int64_t count, void* data) {
  switch (dtype) {
    case Dtype::f32:
      if (count > 0) std::memcpy(data, values, static_cast<size_t>(count) * sizeof(float));
      return;
    case Dtype::bf16:
      return narrow<Bf16>(values, count, data);
    case Dtype::f16:
      return narrow<F16>(values, count, data);
    default:
      fail("convert: got {}, expected f32, bf16 or f16", name_of(dtype));
  }
}

SafetensorsFile::SafetensorsFile(Env& env, const std::string& path) : path_(path), file_(env.open(path)) {
  size_bytes_ = file_->size_bytes();
  uint64_t length = 0;
  check(size_bytes_ >= sizeof(length), "'{}': got {} bytes, expected a safetensors file of at least {}", path,
        size_bytes_, sizeof(length));
  file_->read(0, &length, sizeof(length));
  check(length <= kMaxHeaderBytes, "'{}': got a header of {} bytes, expected at most {}; is it safetensors?",
        path, length, kMaxHeaderBytes);
  check(length <= size_bytes_ - sizeof(length), "'{}': got {} bytes, expected a header of {} and the data",
        path, size_bytes_, length);
  data_begin_ = sizeof(length) + length;
  std::string text(length, '\0');
  file_->read(sizeof(length), text.data(), text.size());
  Hash128 hash;
  hash.update(&length, sizeof(length));
  hash.update(text);
  header_hash_ = hash.hex();
  header_ = parse_safetensors_header(text, size_bytes_ - data_begin_, path);
  for (const StoredTensor& tensor : header_.tensors) by_name_.emplace(tensor.name, &tensor);
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

const StoredTensor& SafetensorsFile::at(std::string_view name) const {
  const StoredTensor* tensor = find(name);
  check(tensor != nullptr, "'{}': the tensor '{}' is missing", path_, name);
  return *tensor;
}

void SafetensorsFile::read(const StoredTensor& tensor, uint64_t offset, void* data, size_t size_bytes) const {
  check(offset <= tensor.size_bytes() && size_bytes <= tensor.size_bytes() - offset,
        "'{}': tensor '{}': asked for {} bytes at {} of {}", path_, tensor.name, size_bytes, offset,
        tensor.size_bytes());
  if (size_bytes > 0) file_->read(data_begin_ + tensor.begin + offset, data, size_bytes);
}

void SafetensorsFile::read_f32(const StoredTensor& tensor, int64_t first, int64_t count,
                               float* values) const {
  check(tensor.dtype && is_floating(*tensor.dtype),
        "'{}': tensor '{}': got {}, expected F32, BF16, F16 or F64", path_, tensor.name, tensor.dtype_name);
  check(first >= 0 && count >= 0 && first <= tensor.shape.numel() - count,
        "'{}': tensor '{}': asked for {} elements at {} of {}", path_, tensor.name, count, first,
        tensor.shape);
  const size_t element = size_of(*tensor.dtype);
  if (tensor.dtype == Dtype::f32)
    return read(tensor, static_cast<uint64_t>(first) * element, values, static_cast<size_t>(count) * element);
  std::string buffer(static_cast<size_t>(std::min(count, kPiece)) * element, '\0');
  for (int64_t done = 0; done < count; done += kPiece) {
    const int64_t piece = std::min(count - done, kPiece);
    read(tensor, static_cast<uint64_t>(first + done) * element, buffer.data(),
         static_cast<size_t>(piece) * element);
    convert_to_f32(*tensor.dtype, buffer.data(), piece, values + done);
  }
}

SafetensorsWriter::SafetensorsWriter(Env& env, const std::string& path, const std::vector<Entry>& entries,
                                     const std::map<std::string, std::string>& metadata)
    : path_(path) {
  for (const Entry& entry : entries) {
    StoredTensor tensor;
    tensor.name = entry.name;
    tensor.dtype = entry.dtype;
    tensor.shape = entry.shape;
    tensors_.push_back(std::move(tensor));
  }
  const std::string header = make_safetensors_header(tensors_, metadata);
  header_bytes_ = header.size();
  data_bytes_ = tensors_.empty() ? 0 : tensors_.back().end;
  Hash128 hash;
  hash.update(header);
  header_hash_ = hash.hex();
  file_ = data_bytes_ < kLargeBytes ? env.create(path) : env.create_large(path);
  file_->append(header);
}

void SafetensorsWriter::append(const void* data, size_t size_bytes) {
  check(size_bytes <= data_bytes_ - appended_, "'{}': got more than the {} bytes that were announced", path_,
        data_bytes_);
  file_->append(data, size_bytes);
  appended_ += size_bytes;
}

void SafetensorsWriter::finish() {
  check(appended_ == data_bytes_, "'{}': got {} bytes of tensors, expected {}", path_, appended_,
        data_bytes_);
  file_->sync();
  file_->close();
}

}  // namespace athanor::store
