// manifest.json: which slice of which logical tensor lies in which file under which name, with a checksum for
// every byte of the checkpoint, its own included. docs/checkpoint_format.md shows one.
//
//   env.write_atomically(path, print_manifest(manifest));
//   Manifest again = parse_manifest(env.read_text(path), path);
//
// All checksums are XXH3-128 as 32 lower-case hexadecimal digits. Parsing checks the manifest's own checksum,
// every name, and that the slices of each tensor cover it exactly once. Errors: Error naming the file and the
// tensor; FormatError (base/format_version.h) for a manifest of another version. Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/tensor/box.h"
#include "athanor/tensor/dtype.h"

namespace athanor {

constexpr const char* kManifestName = "manifest.json";
// 2: error_feedback.*, server_error.* and replica.H.* have these names, and so have the settings.
constexpr int64_t kManifestVersion = 2;

struct ManifestSlice {
  std::string file, entry;  // a safetensors file of the folder, the tensor in it
  Box box;                  // of the tensor
  std::string hash;         // of its bytes
};

struct ManifestTensor {
  std::string name;
  Dtype dtype = Dtype::f32;
  Shape shape;
  std::vector<ManifestSlice> slices;
  bool whole() const { return slices.size() == 1; }  // one slice covers it: it is the tensor
};

struct ManifestFile {
  std::string name;
  uint64_t size_bytes = 0;
  std::string hash;         // of all of it; of a file of tensors: of its header
  bool is_tensors = false;  // a safetensors file, whose tensors have checksums of their own
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

// Puts the line with the checksum in front of the rest of a manifest.
std::string seal_manifest(std::string_view rest);

// The state as one JSON object with sorted keys and no spaces; Error where it is none.
std::string canonical_state(std::string_view state, const std::string& file);

// A name that can stand for a file of a folder: no path, not hidden.
bool is_plain_file_name(std::string_view name);

}  // namespace athanor
