// Reader and writer of safetensors files, Hugging Face's format of named tensors.
//
//   u64 length N of the header | N bytes of JSON, padded with spaces | the tensors' bytes, little-endian
//   {"name": {"dtype": "F32", "shape": [2,3], "data_offsets": [0,24]}, ..., "__metadata__": {"format": "pt"}}
//
//   SafetensorsWriter writer(env, path, {{"w", Dtype::f32, {2, 3}}}, {{"format", "pt"}});
//   writer.append(bytes, 24);   // the tensors in the order of writer.tensors(), in pieces of any size
//   writer.finish();            // synced and closed
//
//   const SafetensorsFile file(env, path);
//   file.read_f32(file.at("w"), values);
//
// The reader trusts nothing. Before it allocates, it checks the header's length, every size, that the tensors fill the
// file without gaps or overlaps, and that no name occurs twice. Errors: Error naming file and tensor; IoError from the
// system. Thread rule: a SafetensorsFile is const; read from one thread at a time. A writer belongs to one thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/tensor/dtype.h"
#include "athanor/tensor/shape.h"

namespace athanor::store {

struct StoredTensor {
  std::string name;
  std::string dtype_name;      // as in the file: "BF16", "BOOL"
  std::optional<Dtype> dtype;  // none for an unsupported one: such a tensor is listed, but cannot be read
  Shape shape;
  uint64_t begin = 0, end = 0;  // bytes, from the start of the data
  uint64_t size_bytes() const { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // by position in the file
  std::map<std::string, std::string> metadata;
};

// `data_bytes`: the file's bytes after the header. `file` is for messages.
SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes,
                                           const std::string& file);

// The bytes before the data: length, JSON and padding. Sorts the tensors by the size of their dtype (largest first),
// then by name, and sets begin and end. Each tensor needs name, dtype and shape.
std::string make_safetensors_header(std::vector<StoredTensor>& tensors,
                                    const std::map<std::string, std::string>& metadata);

class SafetensorsFile {
 public:
  SafetensorsFile(Env& env, const std::string& path);

  const std::string& path() const { return path_; }
  uint64_t size_bytes() const { return size_bytes_; }
  const std::vector<StoredTensor>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const std::string& header_hash() const { return header_hash_; }  // XXH3-128 of all bytes before the data
  const StoredTensor* find(std::string_view name) const;           // null where there is none
  const StoredTensor& at(std::string_view name) const;             // Error where there is none

  // Bytes [offset, offset + size_bytes) of a tensor.
  void read(const StoredTensor& tensor, uint64_t offset, void* data, size_t size_bytes) const;
  // Elements [first, first + count) as f32, converted from f32, bf16, f16 or f64.
  void read_f32(const StoredTensor& tensor, int64_t first, int64_t count, float* values) const;
  void read_f32(const StoredTensor& tensor, float* values) const {
    read_f32(tensor, 0, tensor.shape.numel(), values);
  }

 private:
  std::string path_;
  std::unique_ptr<ReadableFile> file_;
  uint64_t size_bytes_ = 0, data_begin_ = 0;
  SafetensorsHeader header_;
  std::map<std::string_view, const StoredTensor*> by_name_;
  std::string header_hash_;
};

class SafetensorsWriter {
 public:
  struct Entry {
    std::string name;
    Dtype dtype;
    Shape shape;
  };
  SafetensorsWriter(Env& env, const std::string& path, const std::vector<Entry>& entries,
                    const std::map<std::string, std::string>& metadata);

  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // in the order of append()
  const std::string& header_hash() const { return header_hash_; }
  uint64_t size_bytes() const { return header_bytes_ + data_bytes_; }
  void append(const void* data, size_t size_bytes);
  void finish();

 private:
  std::string path_;
  std::unique_ptr<WritableFile> file_;
  std::vector<StoredTensor> tensors_;
  std::string header_hash_;
  uint64_t header_bytes_ = 0, data_bytes_ = 0, appended_ = 0;
};

// The name of a dtype in safetensors files ("BF16").
const char* safetensors_name(Dtype dtype);

// values[i] = the i-th element as f32. Error where the dtype is not a floating-point one.
void convert_to_f32(Dtype dtype, const void* data, int64_t count, float* values);
void convert_from_f32(Dtype dtype, const float* values, int64_t count, void* data);

}  // namespace athanor::store
