// Checkpoints (law 4): logical tensors by name, as safetensors shards under one manifest with checksums. Any
// layout writes them, any other reads them; docs/checkpoint_format.md has the bytes.
//
//   runs/NAME/checkpoints/step_00000100/
//     manifest.json  tensors-00000.safetensors ...  config.resolved.toml  tokenizer.json
//
//   write_checkpoint(env, group, folder, content);         // every rank; atomic
//   if (auto path = newest_checkpoint(env, folder)) { auto c = Checkpoint::open(env, *path); c.read("...",
//   tensor); }
//
// Atomic: written into a hidden folder, files and folder synced, then renamed; a kill at any instant leaves
// either the whole checkpoint or none, and never touches an existing one. Checksums are taken from memory
// before the write and held against every read. Errors: Error naming file and tensor for anything malformed
// or corrupt; IoError for a full disk and the like. Thread rule: a Checkpoint is const after open(); read()
// from one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/comm/group.h"
#include "athanor/tensor/box.h"
#include "athanor/tensor/tensor.h"

namespace athanor {

struct NamedTensor {
  std::string name;  // "model.blocks.0.attn.q.weight", "adam.m.blocks.0.attn.q.weight"
  Tensor tensor;     // f32: the whole, or the box of it that this rank holds; undefined where `read` is set
  Shape whole =
      {};  // of a box: the shape of the whole, and where the box begins; none: the tensor is the whole
  Shape offset = {};
  // Of what is not in memory as f32: its shape, and how to get `count` of its elements from `first` on, which is
  // asked for front to back.
  Shape shape_elsewhere = {};
  std::function<void(int64_t first, int64_t count, float* values)> read = {};

  const Shape& shape() const { return read ? shape_elsewhere : tensor.shape(); }
  void copy(int64_t first, int64_t count, float* values) const;
};

struct CheckpointContent {
  int64_t step = 0;
  std::string state;  // TrainState, one JSON object as text
  // What this rank holds. Together the ranks' boxes cover every tensor, no element in two different boxes
  // (Error naming the tensor); a box that several ranks hold is written by one of them.
  std::vector<NamedTensor> tensors;
  struct File {
    std::string name, text;
  };
  std::vector<File> files;  // stored beside the tensors: config.resolved.toml, tokenizer.json
};

// The path of the finished checkpoint, folder/step_00000100. An existing one of that step is replaced only
// once the new one is complete.
// IoError where another process is writing in that folder.
std::string write_checkpoint(Env& env, Group& group, const std::string& folder,
                             const CheckpointContent& content);
// The same under a path of the caller's choice.
void write_checkpoint_at(Env& env, Group& group, const std::string& path, const CheckpointContent& content);
std::string checkpoint_name(int64_t step);  // "step_00000100"

struct TensorEntry {
  std::string name, file;
  Shape shape;
  Dtype dtype;
};

class Checkpoint {
 public:
  static Checkpoint open(Env& env, const std::string& path);
  ~Checkpoint();
  Checkpoint(Checkpoint&&) noexcept;

  const std::string& path() const;
  int64_t step() const;
  const std::string& state() const;                 // with sorted keys
  const std::vector<TensorEntry>& tensors() const;  // in the order of the manifest
  bool has(const std::string& name) const;
  const TensorEntry& at(const std::string& name) const;  // Error where there is none
  // Its values as f32, row-major; where it throws (wrong checksum, wrong shape) they are unspecified.
  void read(const std::string& name, const Shape& expected, float* values) const;
  // A box of it alone, as a dense array: reads the slices that the box touches.
  void read_box(const std::string& name, const Shape& expected, const Box& box, float* values) const;
  void read(const std::string& name, float* values) const;  // for a caller that took the shape from at()
  bool has_file(const std::string& name) const;
  std::string file_text(const std::string& name) const;  // checked against its checksum

  void verify() const;  // reads and checks everything; Error naming the first thing that is wrong
  // SHA-256 over names, shapes and f32 values of all tensors and over step, tokens, updates, seed and loss
  // scale: nothing that depends on time, host or layout. Checks everything that it reads.
  std::string digest() const;

 private:
  struct Impl;
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Finished checkpoints under a folder (or a run's folder, or one checkpoint itself), by step, oldest first.
std::vector<std::string> list_checkpoints(Env& env, const std::string& folder);
// The newest one that verifies; `skipped` gets a line for each newer one that does not, and for each whose name is not
// that of the step it holds, which is what counts. One that vanishes while it is read (a run beside this reader removes
// its old ones) is not damaged: the folder is looked at again.
std::optional<std::string> newest_checkpoint(Env& env, const std::string& folder,
                                             std::vector<std::string>* skipped);
// Removes the oldest until `keep` are left (0: keeps all) but never the newest that verifies, and unfinished
// ones that no writer holds. Does nothing while another process is writing there. `known_good`: one that the
// caller has just written, whose bytes need no second reading; "" where there is none. Returns a line for each that
// cannot be removed, which the next call tries again.
std::vector<std::string> rotate_checkpoints(Env& env, const std::string& folder, int64_t keep,
                                            const std::string& known_good = "");

}  // namespace athanor
