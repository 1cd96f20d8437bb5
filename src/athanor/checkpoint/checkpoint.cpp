#include "athanor/checkpoint/checkpoint.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"
#include "athanor/checkpoint/format/manifest.h"
#include "athanor/store/safetensors.h"

namespace athanor::checkpoint {
namespace {

constexpr uint64_t kMaxManifestBytes = uint64_t{256} << 20, kMaxTextBytes = uint64_t{1} << 30;
constexpr size_t kReadPieceBytes = size_t{4} << 20;
constexpr size_t kMaxOpenFiles = 64;
// The part of the state that the digest covers. The rest (where the data came from, ...) may differ.
constexpr const char* kDigestKeys[] = {"step", "tokens", "updates", "seed", "loss_scale"};

}  // namespace

struct Checkpoint::Impl {
  Env& env;
  std::string path;
  Manifest manifest;
  std::vector<TensorEntry> entries;
  std::map<std::string, size_t, std::less<>> by_name;
  std::map<std::string, const ManifestFile*, std::less<>> files;
  std::map<std::string, SafetensorsFile> open_files;  // recently used

  const SafetensorsFile& shard(const std::string& name);
  void check_file(const ManifestFile& file);
  std::string text(const ManifestFile& file);
  size_t index_of(const std::string& name) const;
  void read_slice(const ManifestTensor& tensor, const ManifestSlice& slice, const Box& box, float* values);
  void read(const ManifestTensor& tensor, const Box& box, float* values) {
    for (const ManifestSlice& slice : tensor.slices)
      if (values == nullptr || overlap(slice.box, box)) read_slice(tensor, slice, box, values);
  }
  void read(const ManifestTensor& tensor, float* values) { read(tensor, whole_box(tensor.shape), values); }
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

// Reads and verifies a whole slice. `values`: where the box goes; null to verify only.
void Checkpoint::Impl::read_slice(const ManifestTensor& tensor, const ManifestSlice& slice, const Box& box,
                                  float* values) {
  const SafetensorsFile& file = shard(slice.file);
  const StoredTensor& stored = file.at(slice.entry);
  check(stored.shape == slice.box.extent && stored.dtype == tensor.dtype,
        "'{}': tensor '{}': got {} {}, expected {} {}", file.path(), slice.entry, stored.dtype_name,
        stored.shape, safetensors_name(tensor.dtype), slice.box.extent);
  const BoxRuns stored_runs(tensor.shape, slice.box), wanted_runs(tensor.shape, box);
  const size_t element = size_of(tensor.dtype);
  const uint64_t size_bytes = stored.size_bytes();
  const bool in_place = values != nullptr && slice.box == box && tensor.dtype == Dtype::f32;
  std::string buffer(in_place ? 0 : std::min<uint64_t>(kReadPieceBytes, size_bytes), '\0');
  std::vector<float> floats;
  Hash128 hash;
  for (uint64_t done = 0; done < size_bytes; done += kReadPieceBytes) {
    const size_t piece = std::min<uint64_t>(kReadPieceBytes, size_bytes - done);
    const auto first = static_cast<int64_t>(done / element), count = static_cast<int64_t>(piece / element);
    void* into = in_place ? static_cast<void*>(values + first) : buffer.data();
    file.read(stored, done, into, piece);
    hash.update(into, piece);
    if (values == nullptr || in_place) continue;
    floats.resize(static_cast<size_t>(count));
    convert_to_f32(tensor.dtype, buffer.data(), count, floats.data());
    stored_runs.walk(first, first + count, [&](int64_t in_slice, int64_t in_whole, int64_t length) {
      const float* run = floats.data() + in_slice - first;
      wanted_runs.clip(in_whole, length, [&](int64_t in_box, int64_t in_run, int64_t shared) {
        std::copy_n(run + in_run, shared, values + in_box);
      });
    });
  }
  check(hash.hex() == slice.hash, "'{}': tensor '{}': got checksum {}, expected {}; the file is damaged",
        file.path(), slice.entry, hash.hex(), slice.hash);
}

// XXH3-128 of the tensor's values as f32, row-major; independent of its slices.
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
  read_box(name, expected, whole_box(expected), values);
}

void Checkpoint::read_box(const std::string& name, const Shape& expected, const Box& box,
                          float* values) const {
  const TensorEntry& entry = at(name);
  check(entry.shape == expected, "'{}': tensor '{}': got {}, expected {}", impl_->path, name, entry.shape,
        expected);
  check(is_inside(box, expected), "'{}': tensor '{}': got a box of {} at {}, expected it inside of {}",
        impl_->path, name, box.extent, box.offset, expected);
  impl_->read(impl_->manifest.tensors[impl_->index_of(name)], box, values);
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

}  // namespace athanor::checkpoint
