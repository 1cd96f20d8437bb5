#include "athanor/corpus/passes/spool.h"

#include <string>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/base/hash.h"

namespace athanor::corpus::passes {
namespace {

constexpr const char* kIncoming = "incoming";
constexpr size_t kSpoolChunkBytes = size_t{1} << 18;

// Returns the hash of the bytes.
std::string copy_to(Env& env, ByteSource& from, const std::string& path) {
  const auto file = env.create(path);
  Hash128 hash;
  std::vector<char> chunk(kSpoolChunkBytes);
  uint64_t size_bytes = 0;
  while (const size_t got = from.read(chunk.data(), chunk.size())) {
    file->append(chunk.data(), got);
    hash.update(chunk.data(), got);
    size_bytes += got;
  }
  if (size_bytes == 0) throw Error("standard input: got no bytes, expected text for the input '-'");
  file->sync();
  file->close();
  return hash.hex();
}

void take_in(Env& env, ByteSource& from, const PassFolder& folder) {
  const std::string incoming = folder.file(kIncoming);
  std::string name;
  try {
    name = copy_to(env, from, incoming);
  } catch (...) {
    try {
      env.remove_all(incoming);
    } catch (const std::exception&) {  // the first fault is the one to tell
    }
    throw;
  }
  for (const std::string& old : env.list(folder.path()))
    if (old != kIncoming) env.remove_all(folder.file(old));
  env.rename(incoming, folder.file(name));
  env.sync_folder(folder.path());
}

}  // namespace

SourceFile spool(Env& env, const OpenStandardInput& open, WorkFolder& work) {
  const PassFolder folder = work.pass("stdin", "spool");
  if (open) take_in(env, *open(), folder);
  for (const std::string& name : env.list(folder.path()))
    if (name != kIncoming)
      return {folder.file(name), "stdin", env.open(folder.file(name))->size_bytes(), false};
  throw Error("standard input: no build has read it, expected one before", "athanor corpus build reads it");
}

}  // namespace athanor::corpus::passes
