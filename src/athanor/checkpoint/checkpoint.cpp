#include "athanor/checkpoint/checkpoint.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"
#include "athanor/checkpoint/manifest.h"
#include "athanor/store/safetensors.h"

namespace athanor {
namespace {

constexpr uint64_t kMaxManifestBytes = uint64_t{256} << 20, kMaxTextBytes = uint64_t{1} << 30;
constexpr size_t kPieceBytes = size_t{4} << 20;
constexpr size_t kMaxOpenFiles = 64;
// Of the state, what the digest covers: where the data came from and the like may differ.
constexpr const char* kDigestKeys[] = {"step", "tokens", "updates", "seed", "loss_scale"};

// Where the elements of a slice lie in its tensor: runs of elements that are neighbours in both.
class Scatter {
 public:
  Scatter(const Shape& shape, const ManifestSlice& slice) : shape_(shape), slice_(slice) {
    for (int d = shape.dims() - 1; d >= 0; --d) {
      run_ *= slice.extent[d];
      leading_ = d;
      if (slice.extent[d] != shape[d]) break;
    }
  }
  void put(int64_t first, const float* from, int64_t count, float* to) const {
    while (count > 0) {
      const int64_t piece = std::min(count, run_ - first % run_);
      std::copy_n(from, piece, to + run_start(first / run_) + first % run_);
      first += piece;
      from += piece;
      count -= piece;
    }
  }

 private:
  int64_t run_start(int64_t run) const {
    int64_t start = 0, stride = 1;
    for (int d = shape_.dims() - 1; d >= 0; --d) {
      int64_t index = 0;
      if (d < leading_) {
        index = run % slice_.extent[d];
        run /= slice_.extent[d];
      }
      start += (slice_.offset[d] + index) * stride;
      stride *= shape_[d];
    }
    return start;
  }
  const Shape& shape_;
  const ManifestSlice& slice_;
  int64_t run_ = 1;
  int leading_ = 0;  // dimensions before this one are walked, the others are in the run
};

}  // namespace

struct Checkpoint::Impl {
  Env& env;
  std::string path;
  Manifest manifest;
  std::vector<TensorEntry> entries;
  std::map<std::string, size_t, std::less<>> by_name;
  std::map<std::string, const ManifestFile*, std::less<>> files;
  std::map<std::string, SafetensorsFile> open_files;  // the last ones used

  const SafetensorsFile& shard(const std::string& name);
  void check_file(const ManifestFile& file);
  std::string text(const ManifestFile& file);
  size_t index_of(const std::string& name) const;
  void read_slice(const ManifestTensor& tensor, const ManifestSlice& slice, float* values);
  void read(const ManifestTensor& tensor, float* values) {
    for (const ManifestSlice& slice : tensor.slices) read_slice(tensor, slice, values);
  }
  std::string value_hash(const ManifestTensor& tensor);
};

const SafetensorsFile& Checkpoint::Impl::shard(const std::string& name) {
  const auto found = open_files.find(name);
  if (found != open_files.end()) return found->second;
  if (open_files.size() >= kMaxOpenFiles) open_files.clear();
  const SafetensorsFile& file = open_files.try_emplace(name, env, join_path(path, name)).first->second;
  check(file.header_hash() == files.at(name)->hash,
        "'{}': its header has checksum {}, expected {}; it is damaged or of another checkpoint", file.path(),
        file.header_hash(), files.at(name)->hash);
  return file;
}

void Checkpoint::Impl::check_file(const ManifestFile& file) {
  const std::string file_path = join_path(path, file.name);
  check(env.exists(file_path), "'{}': the file is missing", file_path);
  const uint64_t size_bytes = env.open(file_path)->size_bytes();
  check(size_bytes == file.size_bytes, "'{}': got {} bytes, expected {}", file_path, size_bytes,
        file.size_bytes);
}

std::string Checkpoint::Impl::text(const ManifestFile& file) {
  const std::string file_path = join_path(path, file.name);
  std::string content = env.read_text(file_path, kMaxTextBytes);
  Hash128 hash;
  hash.update(content);
  check(hash.hex() == file.hash, "'{}': got checksum {}, expected {}; the file is damaged", file_path,
        hash.hex(), file.hash);
  return content;
}

size_t Checkpoint::Impl::index_of(const std::string& name) const {
  const auto found = by_name.find(name);
  check(found != by_name.end(), "'{}': the tensor '{}' is missing", path, name);
  return found->second;
}

// Reads and checks a slice; `values` is the whole tensor, or null where the check is all that is wanted.
void Checkpoint::Impl::read_slice(const ManifestTensor& tensor, const ManifestSlice& slice, float* values) {
  const SafetensorsFile& file = shard(slice.file);
  const StoredTensor& stored = file.at(slice.entry);
  check(stored.shape == slice.extent && stored.dtype == tensor.dtype,
        "'{}': tensor '{}': got {} {}, expected {} {}", file.path(), slice.entry, stored.dtype_name,
        stored.shape, safetensors_name(tensor.dtype), slice.extent);
  const Scatter scatter(tensor.shape, slice);
  const size_t element = size_of(tensor.dtype);
  const uint64_t size_bytes = stored.size_bytes();
  const bool in_place = values != nullptr && tensor.whole() && tensor.dtype == Dtype::f32;
  std::string buffer(in_place ? 0 : std::min<uint64_t>(kPieceBytes, size_bytes), '\0');
  std::vector<float> floats;
  Hash128 hash;
  for (uint64_t done = 0; done < size_bytes; done += kPieceBytes) {
    const size_t piece = std::min<uint64_t>(kPieceBytes, size_bytes - done);
    const auto first = static_cast<int64_t>(done / element), count = static_cast<int64_t>(piece / element);
    void* into = in_place ? static_cast<void*>(values + first) : buffer.data();
    file.read(stored, done, into, piece);
    hash.update(into, piece);
    if (values == nullptr || in_place) continue;
    floats.resize(static_cast<size_t>(count));
    convert_to_f32(tensor.dtype, buffer.data(), count, floats.data());
    scatter.put(first, floats.data(), count, values);
  }
  check(hash.hex() == slice.hash, "'{}': tensor '{}': got checksum {}, expected {}; the file is damaged",
        file.path(), slice.entry, hash.hex(), slice.hash);
}

// XXH3-128 of the tensor's values as f32, row-major: the same however it is cut into slices.
std::string Checkpoint::Impl::value_hash(const ManifestTensor& tensor) {
  if (tensor.whole() && tensor.dtype == Dtype::f32) {
    read(tensor, nullptr);
    return tensor.slices[0].hash;
  }
  std::vector<float> values(static_cast<size_t>(tensor.shape.numel()));
  read(tensor, values.data());
  Hash128 hash;
  hash.update(values.data(), values.size() * sizeof(float));
  return hash.hex();
}

Checkpoint Checkpoint::open(Env& env, const std::string& path) {
  const std::string manifest_path = join_path(path, kManifestName);
  check(env.is_folder(path), "'{}': got no folder, expected a checkpoint", path);
  check(env.exists(manifest_path), "'{}': holds no {}, expected a checkpoint", path, kManifestName);
  auto impl = std::make_unique<Impl>(
      Impl{.env = env,
           .path = path,
           .manifest = parse_manifest(env.read_text(manifest_path, kMaxManifestBytes), manifest_path),
           .entries = {},
           .by_name = {},
           .files = {},
           .open_files = {}});
  for (const ManifestFile& file : impl->manifest.files) {
    impl->check_file(file);
    impl->files.emplace(file.name, &file);
  }
  for (const ManifestTensor& tensor : impl->manifest.tensors) {
    impl->by_name.emplace(tensor.name, impl->entries.size());
    impl->entries.push_back({tensor.name, tensor.slices[0].file, tensor.shape, tensor.dtype});
  }
  return Checkpoint(std::move(impl));
}

Checkpoint::Checkpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

const std::string& Checkpoint::path() const {
  return impl_->path;
}
int64_t Checkpoint::step() const {
  return impl_->manifest.step;
}
const std::string& Checkpoint::state() const {
  return impl_->manifest.state;
}
const std::vector<TensorEntry>& Checkpoint::tensors() const {
  return impl_->entries;
}
bool Checkpoint::has(const std::string& name) const {
  return impl_->by_name.contains(name);
}
const TensorEntry& Checkpoint::at(const std::string& name) const {
  return impl_->entries[impl_->index_of(name)];
}

void Checkpoint::read(const std::string& name, float* values) const {
  impl_->read(impl_->manifest.tensors[impl_->index_of(name)], values);
}

void Checkpoint::read(const std::string& name, const Shape& expected, float* values) const {
  const TensorEntry& entry = at(name);
  check(entry.shape == expected, "'{}': tensor '{}': got {}, expected {}", impl_->path, name, entry.shape,
        expected);
  read(name, values);
}

bool Checkpoint::has_file(const std::string& name) const {
  const auto found = impl_->files.find(name);
  return found != impl_->files.end() && !found->second->is_tensors;
}

std::string Checkpoint::file_text(const std::string& name) const {
  check(has_file(name), "'{}': the file '{}' is not part of this checkpoint", impl_->path, name);
  return impl_->text(*impl_->files.at(name));
}

void Checkpoint::verify() const {
  std::map<std::string, size_t> used;  // entries that the manifest names, by file
  for (const ManifestTensor& tensor : impl_->manifest.tensors)
    for (const ManifestSlice& slice : tensor.slices) ++used[slice.file];
  for (const ManifestFile& file : impl_->manifest.files) {
    impl_->check_file(file);
    if (!file.is_tensors) {
      impl_->text(file);
      continue;
    }
    const size_t found = impl_->shard(file.name).tensors().size();
    check(found == used[file.name], "'{}': got {} tensors, expected the {} of the manifest",
          join_path(impl_->path, file.name), found, used[file.name]);
  }
  for (const ManifestTensor& tensor : impl_->manifest.tensors) impl_->read(tensor, nullptr);
}

std::string Checkpoint::digest() const {
  std::map<std::string, const ManifestTensor*> sorted;
  for (const ManifestTensor& tensor : impl_->manifest.tensors) sorted.emplace(tensor.name, &tensor);
  Sha256 digest;
  for (const auto& [name, tensor] : sorted)
    digest.update(fmt::format("{}\t{}\t{}\n", name, tensor->shape, impl_->value_hash(*tensor)));
  const auto state = nlohmann::json::parse(impl_->manifest.state);
  nlohmann::json covered = nlohmann::json::object();
  for (const char* key : kDigestKeys)
    if (state.contains(key)) covered[key] = state[key];
  covered["step"] = impl_->manifest.step;
  digest.update(covered.dump());
  return digest.hex();
}

}  // namespace athanor
