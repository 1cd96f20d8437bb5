#include "athanor/corpus/passes/group_pass.h"

#include <fmt/core.h>

#include <cstring>
#include <iterator>

#include "athanor/base/check.h"
#include "athanor/corpus/dedup/record_sorter.h"
#include "athanor/corpus/passes/limits.h"
#include "athanor/corpus/passes/workers.h"
#include "athanor/documents/byte_source.h"
#include "athanor/documents/document_reader.h"
#include "athanor/documents/zstd_output.h"

namespace athanor::corpus::passes {
namespace {

constexpr const char* kGroupVersion = "group 2";
constexpr int64_t kKeyRanges = 8;  // tasks of the pass, whatever the workers

// Whole records of a stream of bytes.
template <typename Take>
void for_each_record(Env& env, const std::string& path, const Take& take) {
  const auto source = open_bytes(env, path);
  std::vector<KeyRecord> chunk(size_t{8192});
  char* const bytes = reinterpret_cast<char*>(chunk.data());
  size_t filled = 0;
  while (const size_t got = source->read(bytes + filled, chunk.size() * sizeof(KeyRecord) - filled)) {
    filled += got;
    const size_t whole = filled / sizeof(KeyRecord);
    for (size_t i = 0; i < whole; ++i) take(chunk[i]);
    filled -= whole * sizeof(KeyRecord);
    std::memmove(bytes, bytes + whole * sizeof(KeyRecord), filled);
  }
  check(filled == 0, "'{}': ends within a record", path);
}

// Keeps records whose key another one has, too.
class GroupWriter {
 public:
  explicit GroupWriter(ZstdOutput& out) : out_(out) {}

  void take(const KeyRecord& record) {
    const bool shared = any_ && last_.key == record.key;
    if (shared && !written_) write(last_);
    if (shared) write(record);
    written_ = shared;
    any_ = true;
    last_ = record;
  }

 private:
  void write(const KeyRecord& record) {
    out_.append({reinterpret_cast<const char*>(&record), sizeof record});
  }

  ZstdOutput& out_;
  KeyRecord last_;
  bool any_ = false, written_ = false;
};

std::vector<SourceFile> earlier_files(Env& env, const StageConfig& stage) {
  std::vector<SourceFile> files;
  for (const std::string& path : stage.against) {
    SourceFiles found = list_sources(env, path);
    files.insert(files.end(), std::make_move_iterator(found.files.begin()),
                 std::make_move_iterator(found.files.end()));
  }
  return files;
}

// The keys of an earlier corpus, a file of them for each of its files.
std::vector<std::string> earlier_keys(Env& env, const CorpusConfig& config, const StageConfig& stage,
                                      const std::vector<SourceFile>& files, const std::string& key,
                                      WorkFolder& work, const Progress& progress) {
  const PassFolder folder = work.pass("earlier", key);
  std::vector<std::string> keys;
  std::vector<size_t> left;
  PassProgress state{.what = "earlier corpus"};
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string name = fmt::format("keys-{:06}.zst", i);
    keys.push_back(folder.file(name));
    if (folder.has(name)) continue;
    left.push_back(i);
    state.total_bytes += files[i].size_bytes;
  }
  run_tasks(
      num_workers(config), static_cast<int64_t>(left.size()),
      [&](int64_t task, const WorkDone& done) {
        const size_t number = left[static_cast<size_t>(task)];
        ZstdOutput out(env, keys[number]);
        std::vector<SpanKey> spans;
        Document document;
        ReadOptions options{.with_metadata = true, .max_document_bytes = max_document_bytes(config)};
        read_file_documents(env, files[number], options,
                            [&](std::string_view text, const DocumentPlace& place) {
                              document.text = text;
                              document.metadata = place.metadata;
                              stage.keys->keys(document, spans);
                              for (const SpanKey& span : spans) {
                                const KeyRecord record{span.key, 0, span.begin, span.end};
                                out.append({reinterpret_cast<const char*>(&record), sizeof record});
                              }
                            });
        out.finish();
        done(files[number].size_bytes);
        return std::string();
      },
      [](int64_t, const std::string&) {},
      [&](uint64_t bytes) {
        state.done_bytes += bytes;
        progress(state);
      });
  return keys;
}

}  // namespace

void Groups::for_each(Env& env, const std::function<void(const KeyRecord& record)>& take) const {
  for (const std::string& file : files) for_each_record(env, file, take);
}

Groups group_keys(Env& env, const CorpusConfig& config, size_t stage, const Parts& parts,
                  const Annotated& annotated, WorkFolder& work, const Progress& progress) {
  std::vector<std::string> stamps = {kGroupVersion, annotated.key, std::to_string(stage)};
  const std::vector<SourceFile> earlier = earlier_files(env, config.stages[stage]);
  for (const SourceFile& file : earlier) stamps.push_back(fmt::format("{} {}", file.path, file.size_bytes));
  const std::string key = key_of(stamps);
  std::vector<std::string> files;
  if (!earlier.empty()) files = earlier_keys(env, config, config.stages[stage], earlier, key, work, progress);
  const size_t num_earlier = files.size();
  for (const Part& part : parts.parts) files.push_back(annotated.keys(part, stage));
  const PassFolder folder = work.pass("groups", key);
  Groups groups{.stage = stage, .key = key};
  std::vector<int64_t> left;
  const auto name = [](int64_t range) { return fmt::format("groups-{}.zst", range); };
  for (int64_t range = 0; range < kKeyRanges; ++range) {
    groups.files.push_back(folder.file(name(range)));
    if (!folder.has(name(range))) left.push_back(range);
  }
  PassProgress state{.what = "comparing", .total_bytes = parts.text_bytes * left.size()};
  run_tasks(
      num_workers(config), static_cast<int64_t>(left.size()),
      [&](int64_t task, const WorkDone& done) {
        const int64_t range = left[static_cast<size_t>(task)];
        RecordSorter sorter(env, folder.file(fmt::format("sort-{}", range)), worker_bytes(config) / 2);
        for (size_t i = 0; i < files.size(); ++i) {
          for_each_record(env, files[i], [&](const KeyRecord& record) {
            if (static_cast<int64_t>(record.key.high >> 61) == range) sorter.add(record);
          });
          if (i >= num_earlier) done(parts.parts[i - num_earlier].text_bytes);
        }
        ZstdOutput out(env, groups.files[static_cast<size_t>(range)]);
        GroupWriter writer(out);
        sorter.merge([&](const KeyRecord& record) { writer.take(record); });
        out.finish();
        return std::string();
      },
      [](int64_t, const std::string&) {},
      [&](uint64_t bytes) {
        state.done_bytes += bytes;
        progress(state);
      });
  return groups;
}

}  // namespace athanor::corpus::passes
