// A .bin/.idx pair from any bytes: two bytes say how long the .bin is, its bytes follow, the rest is the
// .idx. What opens must be readable from end to end. Whatever is wrong is an Error.
#include <stdlib.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/data/indexed_dataset.h"

namespace {

struct Folder {
  Folder() {
    if (::mkdtemp(path.data()) == nullptr) std::abort();
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path = (std::filesystem::temp_directory_path() / "athanor_fuzz_XXXXXX").string();
};

// Removed first, because file systems write a file that replaces its own content to the disk at once.
void write(const std::string& path, std::string_view bytes) {
  std::filesystem::remove(path);
  const auto file = athanor::system_env().create(path);
  file->append(bytes);
  file->close();
}

void use(const athanor::IndexedDataset& dataset) {
  std::vector<int32_t> ids(static_cast<size_t>(dataset.num_tokens()));
  try {
    dataset.read(0, ids);
    dataset.check_ids(70000);
  } catch (const athanor::Error&) {  // an id that int32 or the vocabulary cannot hold
  }
  int64_t before = 0;
  for (int64_t document = 0; document <= dataset.num_documents(); ++document) {
    const int64_t start = dataset.document_start(document);
    if (start < before || start > dataset.num_tokens()) std::abort();
    before = start;
  }
  if (before != dataset.num_tokens()) std::abort();
  dataset.quick_hash();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  if (size < 2) return 0;
  uint16_t bin_bytes = 0;
  std::memcpy(&bin_bytes, data, sizeof bin_bytes);
  const std::string_view rest(reinterpret_cast<const char*>(data) + 2, size - 2);
  if (bin_bytes > rest.size()) return 0;
  write(folder.path + "/x.bin", rest.substr(0, bin_bytes));
  write(folder.path + "/x.idx", rest.substr(bin_bytes));
  try {
    use(athanor::IndexedDataset(folder.path + "/x"));
  } catch (const athanor::Error&) {
    return 0;
  }
  return 0;
}
