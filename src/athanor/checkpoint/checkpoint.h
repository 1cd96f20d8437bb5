// Checkpoints (law 4): logical tensors by name, as safetensors shards under one manifest with checksums. Any layout
// writes them, any other layout reads them (resharding, like torch.distributed.checkpoint). docs/checkpoint_format.md
// has the bytes.
//
//   runs/NAME/checkpoints/step_00000100/
//     manifest.json  tensors-00000.safetensors ...  config.resolved.toml  tokenizer.json
//
//   write_checkpoint(env, group, folder, content);         // every rank; atomic
//   if (auto path = newest_checkpoint(env, folder, nullptr)) Checkpoint::open(env, *path).read("...", values);
//
// Writing is atomic: into a hidden folder, files and folder synced, then renamed. A kill at any instant leaves either
// the complete checkpoint or none, and never touches an existing one. Checksums are computed from memory before the
// write and compared at every read. Errors: Error naming file and tensor for anything malformed or corrupt; IoError for
// a full disk and the like. Thread rule: a Checkpoint is const after open(); read() from one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/checkpoint/format/shards.h"
#include "athanor/checkpoint/tensor_source.h"
#include "athanor/comm/group.h"
#include "athanor/tensor/box.h"
#include "athanor/tensor/tensor.h"

namespace athanor::checkpoint {

struct NamedTensor {
  std::string name;   // "model.blocks.0.attn.q.weight", "adam.m.blocks.0.attn.q.weight"
  Tensor tensor;      // f32: the full tensor, or this rank's box of it; undefined where `read` is set
  Shape whole = {};   // of a box: the shape of the full tensor; empty: `tensor` is the full tensor
  Shape offset = {};  // of a box: where it begins
  // For values that are not in memory as f32 (offload, 8-bit state): their shape, and a function that reads `count`
  // elements from `first` on; called front to back.
  Shape shape_elsewhere = {};
  std::function<void(int64_t first, int64_t count, float* values)> read = {};

  const Shape& shape() const { return read ? shape_elsewhere : tensor.shape(); }
  const Shape& whole_shape() const { return offset.dims() == 0 ? shape() : whole; }
  Box box() const { return offset.dims() == 0 ? whole_box(shape()) : Box{offset, shape()}; }
  void copy(int64_t first, int64_t count, float* values) const;
};

struct CheckpointContent {
  int64_t step = 0;
  std::string state;  // TrainState, one JSON object as text
  // The tensors and boxes that this rank holds. The boxes of all ranks must cover every tensor, without overlap of
  // different boxes (else Error naming the tensor). A box that several ranks hold is written by one of them.
  std::vector<NamedTensor> tensors;
  using File = format::TextFile;
  std::vector<File> files;  // stored beside the tensors: config.resolved.toml, tokenizer.json
};

// Writes a checkpoint and returns its path, folder/step_00000100. An existing one of that step is replaced once the new
// one is complete. IoError where another process is writing in that folder.
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

class Checkpoint final : public TensorSource {
 public:
  static Checkpoint open(Env& env, const std::string& path);
  ~Checkpoint() override;
  Checkpoint(Checkpoint&&) noexcept;

  const std::string& path() const;
  int64_t step() const;
  const std::string& state() const;                 // with sorted keys
  const std::vector<TensorEntry>& tensors() const;  // in the order of the manifest
  std::string text() const override { return path(); }
  bool has(const std::string& name) const override;
  const Shape& shape_of(const std::string& name) const override { return at(name).shape; }
  const TensorEntry& at(const std::string& name) const;  // Error where there is none
  // Reads a tensor as f32, row-major. On an error (wrong checksum, wrong shape) `values` are unspecified.
  void read(const std::string& name, const Shape& expected, float* values) const;
  // Reads a box of a tensor as a dense array; only the slices that the box touches are read.
  void read_box(const std::string& name, const Shape& expected, const Box& box, float* values) const override;
  void read(const std::string& name, float* values) const;  // without a check of the shape (see at())
  bool has_file(const std::string& name) const;
  std::string file_text(const std::string& name) const;  // verified by checksum

  void verify() const;  // reads and verifies everything; Error naming the first fault
  // SHA-256 over names, shapes and f32 values of all tensors and over step, tokens, updates, seed and loss scale. It
  // does not depend on time, host or layout. Verifies everything that it reads.
  std::string digest() const;

 private:
  struct Impl;
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Complete checkpoints under a folder (of checkpoints, of a run, or a single checkpoint), by step, oldest first.
std::vector<std::string> list_checkpoints(Env& env, const std::string& folder);
// The newest checkpoint that verifies, by the step that it holds. `skipped` (may be null) gets a line for each newer
// one that does not verify, and for each whose name does not match its step. If one vanishes while it is read (a live
// run removes old ones), the folder is listed again.
std::optional<std::string> newest_checkpoint(Env& env, const std::string& folder,
                                             std::vector<std::string>* skipped);
// Removes the oldest checkpoints until `keep` are left (0: keeps all), but never the newest that verifies. Removes
// unfinished ones of dead writers, too. Does nothing while another process is writing there. `known_good`: a checkpoint
// that the caller has just written and that need not be verified; "" for none. Returns a line for each that could not
// be removed; the next call tries again.
std::vector<std::string> rotate_checkpoints(Env& env, const std::string& folder, int64_t keep,
                                            const std::string& known_good = "");

}  // namespace athanor::checkpoint
