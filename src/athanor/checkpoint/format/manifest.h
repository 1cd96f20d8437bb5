// manifest.json: the file and the entry of each slice of each logical tensor, with checksums that cover every byte of
// the checkpoint, the manifest included. docs/checkpoint_format.md shows one.
//
//   env.write_atomically(path, print_manifest(manifest));
//   Manifest again = parse_manifest(env.read_text(path), path);
//
// All checksums are XXH3-128 as 32 lower-case hexadecimal digits. Parsing checks the manifest's own checksum, every
// name, and that the slices of each tensor cover it exactly once. Errors: Error naming the file and the tensor;
// FormatError (base/format_version.h) for a manifest of a version that is not read. Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/tensor/box.h"
#include "athanor/tensor/dtype.h"

namespace athanor::checkpoint::format {

constexpr const char* kManifestName = "manifest.json";
// 2: error_feedback.*, server_error.* and replica.H.* have these names, and so have the settings.
// 3: the state may have decisions, which a reader of 2 would not follow. Those of 2 are read: they have none.
constexpr int64_t kManifestVersion = 3, kOldestManifestVersion = 2;

struct ManifestSlice {
  std::string file, entry;  // a safetensors file of the folder, and the name of the slice in it
  Box box;                  // of the logical tensor
  std::string hash;         // checksum of the slice's bytes
};

struct ManifestTensor {
  std::string name;
  Dtype dtype = Dtype::f32;
  Shape shape;
  std::vector<ManifestSlice> slices;
  bool whole() const { return slices.size() == 1; }  // a single slice is the full tensor
};

struct ManifestFile {
  std::string name;
  uint64_t size_bytes = 0;
  std::string hash;         // checksum of the file; of a safetensors file: of its header
  bool is_tensors = false;  // a safetensors file; its tensors have checksums of their own
};

struct Manifest {
  int64_t step = 0;
  std::string state;  // one JSON object
  std::vector<ManifestTensor> tensors;
  std::vector<ManifestFile> files;
};

// Why the slices of a tensor do not cover it exactly once; empty where they do.
std::string cover_fault(const ManifestTensor& tensor);

std::string print_manifest(const Manifest& manifest);
Manifest parse_manifest(std::string_view text, const std::string& file);

// Inserts the line with the manifest's own checksum before the rest of the text.
std::string seal_manifest(std::string_view rest);

// The state as one JSON object with sorted keys and no spaces. Error where it is no JSON object.
std::string canonical_state(std::string_view state, const std::string& file);

// Whether a name is a plain file name: no path, not hidden.
bool is_plain_file_name(std::string_view name);

}  // namespace athanor::checkpoint::format
