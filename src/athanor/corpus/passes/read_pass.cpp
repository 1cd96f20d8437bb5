#include "athanor/corpus/passes/read_pass.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/corpus/passes/limits.h"
#include "athanor/corpus/passes/record.h"
#include "athanor/corpus/passes/workers.h"
#include "athanor/documents/document_reader.h"
#include "athanor/documents/source_files.h"
#include "athanor/documents/zstd_output.h"

namespace athanor::corpus::passes {
namespace {

using nlohmann::ordered_json;

constexpr size_t kRefusedExamples = 5;
constexpr const char* kReadVersion = "read 3";

struct InputFile {
  const InputConfig* input;
  SourceFile file;
};

std::vector<InputFile> files_of(Env& env, const CorpusConfig& config, const OpenStandardInput& standard_input,
                                WorkFolder& work, Parts& parts) {
  std::vector<InputFile> files;
  for (const InputConfig& input : config.inputs) {
    SourceFiles found;
    if (input.path == kStandardInput)
      found.files.push_back(spool(env, standard_input, work));
    else
      found = list_sources(env, input.path);
    for (SourceFile& file : found.files) {
      parts.raw_bytes += file.size_bytes;
      files.push_back({&input, std::move(file)});
    }
    for (LeftOut& out : found.left_out)
      parts.left_out.emplace_back(std::move(out.file), std::move(out.reason));
  }
  parts.files = files.size();
  return files;
}

// A file that has changed since has another time or another size; that of standard input has another name.
std::string stamp_of(const InputFile& file) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(file.file.path, error);
  return fmt::format("{} {} {} {} {} {} {}", file.input->channel, file.file.path, file.file.size_bytes,
                     error || file.input->path == kStandardInput ? 0 : time.time_since_epoch().count(),
                     file.input->format, file.input->text, file.input->id) +
         fmt::format(" {}", fmt::join(file.input->separators, " "));
}

// Writes the documents of a batch of files into parts.
class PartWriter {
 public:
  PartWriter(Env& env, const PassFolder& folder, int64_t batch) : env_(env), folder_(folder), batch_(batch) {}

  void take(const Document& document) {
    if (out_ == nullptr) {
      name_ = fmt::format("part-{:06}-{:06}", batch_, parts_.size());
      out_ = std::make_unique<ZstdOutput>(env_, folder_.file(name_ + ".jsonl.zst"));
    }
    line_.clear();
    append_record(line_, document);
    out_->append(line_);
    ++documents_;
    text_bytes_ += document.text.size();
    if (text_bytes_ >= kPartBytes || documents_ == kPartDocuments) end_part();
  }

  ordered_json finish() {
    if (out_ != nullptr) end_part();
    return std::move(parts_);
  }

 private:
  void end_part() {
    out_->finish();
    out_.reset();
    parts_.push_back({{"name", name_}, {"documents", documents_}, {"text_bytes", text_bytes_}});
    documents_ = text_bytes_ = 0;
  }

  Env& env_;
  const PassFolder& folder_;
  int64_t batch_;
  std::string name_, line_;
  std::unique_ptr<ZstdOutput> out_;
  uint64_t documents_ = 0, text_bytes_ = 0;
  ordered_json parts_ = ordered_json::array();
};

// What one batch has found, for its marker.
struct Found {
  ordered_json sources = ordered_json::array();
  ordered_json refused = ordered_json::object();
  ordered_json left_out = ordered_json::array();
};

void count_refused(ordered_json& refused, const std::string& kind, int64_t count,
                   const ordered_json& example) {
  ordered_json& entry = refused[kind];
  if (entry.is_null()) entry = {{"count", 0}, {"examples", ordered_json::array()}};
  entry["count"] = entry["count"].get<int64_t>() + count;
  if (!example.is_null() && entry["examples"].size() < kRefusedExamples) entry["examples"].push_back(example);
}

void read_file(Env& env, const InputFile& file, uint64_t max_bytes, PartWriter& writer, Found& found,
               const WorkDone& done) {
  uint64_t told = 0;
  const auto tell = [&](uint64_t bytes_done) {
    if (bytes_done > told + (uint64_t{1} << 20)) done(bytes_done - told), told = bytes_done;
  };
  ReadOptions options{.text_key = file.input->text, .separators = file.input->separators};
  options.id_key = file.input->id;
  options.format = file.input->format;
  options.with_metadata = true;
  options.max_document_bytes = max_bytes;
  options.refused = [&](const DocumentPlace& place, const Refusal& why) {
    count_refused(found.refused, why.kind, 1,
                  {{"file", file.input->path == kStandardInput ? "standard input" : place.file},
                   {"line", place.line},
                   {"detail", why.detail}});
  };
  Document document{.source = file.file.relative, .channel = file.input->channel};
  uint64_t documents = 0, text_bytes = 0;
  const ReadReport report =
      read_file_documents(env, file.file, options, [&](std::string_view text, const DocumentPlace& place) {
        document.id = place.id.empty() ? fmt::format("{}/{}", file.file.relative, place.record) : place.id;
        document.text = text;
        document.metadata = place.metadata;
        writer.take(document);
        ++documents, text_bytes += text.size();
        tell(place.bytes_done);
      });
  if (documents > 0)
    found.sources.push_back(
        {{"name", document.source}, {"documents", documents}, {"text_bytes", text_bytes}});
  if (file.file.size_bytes > told) done(file.file.size_bytes - told);
  for (const LeftOut& out : report.left_out) found.left_out.push_back({out.file, out.reason});
  if (report.empty > 0) count_refused(found.refused, "empty", report.empty, nullptr);
}

// Files that one task reads: neighbours of one input, so that many small files do not become many small parts.
struct Batch {
  size_t begin = 0, end = 0;  // of all files
  uint64_t bytes = 0;
};

std::vector<Batch> batches_of(const std::vector<InputFile>& files) {
  std::vector<Batch> batches;
  for (size_t i = 0; i < files.size(); ++i) {
    const bool starts = batches.empty() || batches.back().bytes >= kPartBytes ||
                        files[batches.back().begin].input != files[i].input;
    if (starts) batches.push_back({.begin = i});
    batches.back().end = i + 1;
    batches.back().bytes += files[i].file.size_bytes;
  }
  return batches;
}

void add_batch(const InputConfig& input, const std::string& result, Parts& parts) {
  const ordered_json read = ordered_json::parse(result);
  uint64_t first = parts.documents;
  for (const ordered_json& each : read["sources"]) {
    Source source{.name = each["name"], .channel = input.channel, .first = first};
    source.documents = each["documents"];
    source.text_bytes = each["text_bytes"];
    first += source.documents;
    parts.sources.push_back(std::move(source));
  }
  for (const ordered_json& each : read["parts"]) {
    Part part{.name = each["name"], .channel = input.channel};
    part.first = parts.documents;
    part.documents = each["documents"];
    part.text_bytes = each["text_bytes"];
    parts.documents += part.documents;
    parts.text_bytes += part.text_bytes;
    parts.parts.push_back(std::move(part));
  }
  for (const auto& [reason, entry] : read["refused"].items()) {
    Refused& refused = parts.refused[reason];
    refused.count += entry["count"].get<int64_t>();
    for (const ordered_json& example : entry["examples"])
      if (refused.examples.size() < kRefusedExamples)
        refused.examples.push_back({example["file"], example["line"], example["detail"]});
  }
  for (const ordered_json& out : read["left_out"]) parts.left_out.emplace_back(out[0], out[1]);
}

}  // namespace

ReadInputs read_inputs(Env& env, const CorpusConfig& config, const OpenStandardInput& standard_input,
                       WorkFolder& work, const Progress& progress) {
  Parts parts;
  const std::vector<InputFile> files = files_of(env, config, standard_input, work, parts);
  const uint64_t max_document = max_document_bytes(config);
  std::vector<std::string> stamps = {kReadVersion, std::to_string(max_document)};
  for (const InputFile& file : files) stamps.push_back(stamp_of(file));
  const std::string key = key_of(stamps);
  const PassFolder folder = work.pass("read", key);
  const auto marker = [](size_t batch) { return fmt::format("batch-{:06}.json", batch); };
  const std::vector<Batch> batches = batches_of(files);
  std::vector<size_t> left;
  PassProgress state{.what = "reading", .total_bytes = parts.raw_bytes};
  for (size_t i = 0; i < batches.size(); ++i) {
    if (folder.has(marker(i)))
      state.done_bytes += batches[i].bytes;
    else
      left.push_back(i);
  }
  run_tasks(
      num_workers(config), static_cast<int64_t>(left.size()),
      [&](int64_t task, const WorkDone& done) {
        const size_t number = left[static_cast<size_t>(task)];
        PartWriter writer(env, folder, static_cast<int64_t>(number));
        Found found;
        for (size_t i = batches[number].begin; i < batches[number].end; ++i)
          read_file(env, files[i], max_document, writer, found, done);
        folder.write(marker(number), ordered_json{{"parts", writer.finish()},
                                                  {"sources", found.sources},
                                                  {"refused", found.refused},
                                                  {"left_out", found.left_out}}
                                         .dump(-1, ' ', false, ordered_json::error_handler_t::replace));
        return std::string();
      },
      [](int64_t, const std::string&) {},
      [&](uint64_t bytes) {
        state.done_bytes += bytes;
        progress(state);
      });
  for (size_t i = 0; i < batches.size(); ++i)
    add_batch(*files[batches[i].begin].input, folder.read(marker(i)), parts);
  std::string refused;
  for (const auto& [reason, entry] : parts.refused)
    refused += fmt::format("{}{} ({}x)", refused.empty() ? "; refused: " : ", ", reason, entry.count);
  check(parts.documents > 0, "corpus '{}': got no document from {} files, expected one or more{}",
        config.name, parts.files, refused);
  return {std::move(parts), folder, key};
}

}  // namespace athanor::corpus::passes
