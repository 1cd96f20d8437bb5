// A safetensors file from any bytes: the reader takes it or throws an Error. What it took lies inside the
// file, and its header written anew reads as the same tensors.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "athanor/base/error.h"
#include "athanor/store/safetensors.h"

namespace {

// The bytes as a file, without a disk.
class MemoryFile : public athanor::ReadableFile {
 public:
  MemoryFile(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  uint64_t size_bytes() const override { return size_; }
  void read(uint64_t offset, void* data, size_t size_bytes) const override {
    if (offset > size_ || size_bytes > size_ - offset) std::abort();  // the reader checks before it reads
    if (size_bytes > 0) std::memcpy(data, data_ + offset, size_bytes);
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

class MemoryEnv : public athanor::Env {
 public:
  MemoryEnv(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  std::unique_ptr<athanor::ReadableFile> open(const std::string&) override {
    return std::make_unique<MemoryFile>(data_, size_);
  }
  std::unique_ptr<athanor::WritableFile> create(const std::string&) override { std::abort(); }
  std::unique_ptr<athanor::WritableFile> append_to(const std::string&) override { std::abort(); }
  void create_folders(const std::string&) override { std::abort(); }
  void rename(const std::string&, const std::string&) override { std::abort(); }
  void remove_all(const std::string&) override { std::abort(); }
  void truncate(const std::string&, uint64_t) override { std::abort(); }
  void sync_folder(const std::string&) override { std::abort(); }
  bool exists(const std::string&) override { return true; }
  bool is_folder(const std::string&) override { return false; }
  std::vector<std::string> list(const std::string&) override { return {}; }

 private:
  const uint8_t* data_;
  size_t size_;
};

void expect_same(const athanor::SafetensorsFile& file) {
  std::vector<athanor::StoredTensor> tensors;
  for (const auto& tensor : file.tensors())
    if (tensor.dtype && !tensor.name.empty()) tensors.push_back(tensor);
  const std::string header = athanor::make_safetensors_header(tensors, file.metadata());
  const uint64_t data_bytes = tensors.empty() ? 0 : tensors.back().end;
  const auto again =
      athanor::parse_safetensors_header(std::string_view(header).substr(8), data_bytes, "again");
  if (again.tensors.size() != tensors.size() || again.metadata != file.metadata()) std::abort();
  for (const auto& tensor : again.tensors) {
    const auto* original = file.find(tensor.name);
    if (original == nullptr || original->shape != tensor.shape || original->dtype != tensor.dtype)
      std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  MemoryEnv env(data, size);
  try {
    const athanor::SafetensorsFile file(env, "fuzz.safetensors");
    for (const auto& tensor : file.tensors()) {
      if (!tensor.dtype || !athanor::is_floating(*tensor.dtype)) continue;
      std::vector<float> values(static_cast<size_t>(tensor.shape.numel()));
      file.read_f32(tensor, values.data());
    }
    expect_same(file);
  } catch (const athanor::Error&) {
  }
  return 0;
}
