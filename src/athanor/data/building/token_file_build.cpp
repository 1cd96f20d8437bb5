#include "athanor/data/building/token_file_build.h"

#include <algorithm>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"
#include "athanor/data/instructions/instruction_encoder.h"

namespace athanor::data::building {
namespace {

// Of what lies in PREFIX.build, and of what a text becomes; a build of another one starts anew.
constexpr const char* kBuildVersion = "token file parts 1";

[[noreturn]] void refuse_without_text(const std::string& path, const ReadReport& read) {
  std::string found = fmt::format("{} files read", read.files);
  if (!read.left_out.empty())
    found += fmt::format(", {} left out: {} ({}){}", read.left_out.size(), read.left_out[0].file,
                         read.left_out[0].reason, read.left_out.size() > 1 ? ", ..." : "");
  fail("'{}': no text in it ({}), expected a document", path, found);
}

}  // namespace

TokenFileBuild::TokenFileBuild(Env& env, const Tokenizer& tokenizer, const std::vector<std::string>& paths,
                               const std::string& prefix, const TokenizeOptions& options)
    : env_(env),
      tokenizer_(tokenizer),
      paths_(paths),
      prefix_(prefix),
      options_(options),
      input_(env, paths, options.part_bytes),
      how_{.text_key = options.text_key,
           .separators = document_separators(tokenizer),
           .whole_object = options.instructions != nullptr},
      encoder_(tokenizer, options) {
  check(options.part_bytes >= 1, "'{}': got parts of {} bytes, expected at least 1", prefix,
        options.part_bytes);
  state_.bytes_total = input_.size_bytes();
  state_.source = paths.empty() ? "" : paths[0];
}

void TokenFileBuild::report(bool finished) {
  state_.documents = documents_made_ + (writing_ == nullptr ? 0 : writing_->num_documents());
  state_.tokens = tokens_made_ + (writing_ == nullptr ? 0 : writing_->num_tokens());
  state_.finished = finished;
  if (options_.progress) options_.progress(state_);
  state_.waiting = state_.starts_anew = false;
  state_.parts_found = 0;
  state_.untraced_part.clear();
}

bool TokenFileBuild::is_one_part() const {
  return input_.size_bytes() <= options_.part_bytes || input_.has_standard_input();
}

std::string TokenFileBuild::key() const {
  Hash128 hash;
  hash.update(fmt::format(
      "{}\n{}\n{}\n{}\n{}\n{}\n", kBuildVersion, tokenizer_hash(tokenizer_),
      options_.instructions != nullptr ? options_.instructions->identity() : options_.text_key,
      options_.fim != nullptr ? options_.fim->identity() : "", options_.part_bytes, input_.identity()));
  return hash.hex();
}

TokenFileInfo TokenFileBuild::run() {
  refuse_if_stopped(options_);
  folder_.emplace(env_, prefix_ + ".build", is_one_part() ? "" : key(),
                  BuildFolderOptions{.stop = options_.stop, .on_wait = [this] {
                                       state_.waiting = true;
                                       report(false);
                                     }});
  state_.starts_anew = folder_->begin() == BuildFolder::Begin::anew;
  if (folder_->begin() == BuildFolder::Begin::goes_on) state_.parts_found = folder_->num_parts_done();
  report(false);
  TokenFileInfo info;
  if (is_one_part()) {
    info = encode_whole();
  } else {
    make_parts();
    info = put_together();
  }
  writing_ = nullptr;
  documents_made_ = info.documents;
  tokens_made_ = info.tokens;
  state_.bytes_done = state_.bytes_total;
  state_.run_together = info.end_of_text < 0 && info.documents > 1;
  folder_.reset();  // before somebody is told that all is done
  report(true);
  return info;
}

ReadReport TokenFileBuild::read_group(const FileGroup& group, const DocumentCallback& take) {
  ReadReport read;
  state_.source = paths_[group.path];
  uint64_t bytes_before = group.bytes_before;
  for (size_t f = group.first; f < group.first + group.count; ++f) {
    const SourceFile& file = input_.of_path(group.path).files[f];
    read.add(read_file_documents(env_, file, how_, [&](std::string_view text, const DocumentPlace& place) {
      take(text, place);
      state_.bytes_done = std::max(state_.bytes_done, bytes_before + place.bytes_done);
    }));
    bytes_before += file.size_bytes;
  }
  return read;
}

TokenFileInfo TokenFileBuild::encode_whole() {
  IndexedWriter writer(env_, prefix_, tokenizer_.vocab_size(), folder_->path("whole"));
  writing_ = &writer;
  encoder_.write_to(writer);
  for (size_t g = 0; g < input_.groups().size(); ++g)
    read_[static_cast<int64_t>(g)].info.read =
        read_group(input_.groups()[g], [&](std::string_view text, const DocumentPlace& place) {
          if (encoder_.add(text, place)) report(false);
        });
  encoder_.finish_batch();
  return publish(*folder_, writer);
}

void TokenFileBuild::begin_part(Walk& walk) const {
  if (folder_->is_done(walk.group, walk.part)) return;
  walk.lock = folder_->try_part(walk.group, walk.part);
  if (walk.lock == nullptr || folder_->is_done(walk.group, walk.part)) return;
  walk.writer = std::make_unique<IndexedWriter>(env_, folder_->part_prefix(walk.group, walk.part),
                                                tokenizer_.vocab_size());
}

void TokenFileBuild::end_part(Walk& walk) {
  if (walk.writer != nullptr) {
    encoder_.finish_batch();
    walk.writer->finish();
    documents_made_ += walk.writer->num_documents();
    tokens_made_ += walk.writer->num_tokens();
    writing_ = nullptr;
    walk.writer.reset();
    report(false);
  }
  walk.lock.reset();
  walk.part_bytes = 0;
  ++walk.part;
}

void TokenFileBuild::walk_group(int64_t group, bool helps) {
  const auto reading = folder_->try_group(group);
  if (reading == nullptr && !helps) return;
  if (record_of(group) && !has_free_part(group)) return;
  Walk walk{.group = group};
  GroupRecord record;
  record.info.read = read_group(input_.groups()[static_cast<size_t>(group)],
                                [&](std::string_view text, const DocumentPlace& place) {
                                  refuse_if_stopped(options_);
                                  if (walk.part_bytes == 0) {
                                    begin_part(walk);
                                    writing_ = walk.writer.get();
                                    if (walk.writer != nullptr) encoder_.write_to(*walk.writer);
                                  }
                                  if (walk.writer != nullptr && encoder_.add(text, place)) report(false);
                                  walk.part_bytes += text.size();
                                  if (walk.part_bytes >= options_.part_bytes) end_part(walk);
                                });
  if (walk.part_bytes > 0) end_part(walk);
  record.parts = walk.part;
  record.info.documents = record.info.read.documents;
  record.info.bytes = record.info.read.text_bytes;
  // One of those who read a group says so for all, and for later ones.
  if (reading != nullptr && !folder_->group(group)) folder_->save_group(group, record);
  read_.insert_or_assign(group, std::move(record));
}

std::optional<GroupRecord> TokenFileBuild::record_of(int64_t group) const {
  if (const auto mine = read_.find(group); mine != read_.end()) return mine->second;
  return folder_->group(group);
}

// The first part that is not done; part 0 where nobody has said how many there are.
std::optional<TokenFileBuild::Pending> TokenFileBuild::first_missing(int64_t group) const {
  const auto record = record_of(group);
  if (!record) return Pending{group, 0};
  for (int64_t part = 0; part < record->parts; ++part)
    if (!folder_->is_done(group, part)) return Pending{group, part};
  return std::nullopt;
}

// Whether a part is neither done nor being made.
bool TokenFileBuild::has_free_part(int64_t group) const {
  const auto record = record_of(group);
  for (int64_t part = 0; part < record->parts; ++part)
    if (!folder_->is_done(group, part) && folder_->try_part(group, part) != nullptr) return true;
  return false;
}

void TokenFileBuild::make_parts() {
  const auto num_groups = static_cast<int64_t>(input_.groups().size());
  for (int64_t group = 0; group < num_groups; ++group) walk_group(group, /*helps=*/false);
  for (int64_t group = 0; group < num_groups;) {
    const auto missing = first_missing(group);
    if (!missing) {
      ++group;
      continue;
    }
    walk_group(group, /*helps=*/true);
    // Left are parts that others make. If one of them dies, the next round makes its part.
    if (const auto left = first_missing(group)) folder_->wait_for_part(left->group, left->part);
  }
}

TokenFileInfo TokenFileBuild::info_of_all(const std::map<int64_t, GroupRecord>& groups) const {
  TokenFileInfo info;
  info.source = paths_;
  info.text_key = options_.instructions != nullptr ? options_.instructions->keys() : options_.text_key;
  info.tokenizer_hash = tokenizer_hash(tokenizer_);
  info.vocab_size = tokenizer_.vocab_size();
  info.end_of_text = tokenizer_.end_of_text().value_or(-1);
  auto group = groups.begin();
  for (size_t p = 0; p < paths_.size(); ++p) {
    ReadReport read;
    read.left_out = input_.of_path(p).left_out;
    for (; group != groups.end() && input_.groups()[static_cast<size_t>(group->first)].path == p; ++group)
      read.add(group->second.info.read);
    if (read.documents == 0) refuse_without_text(paths_[p], read);
    if (paths_.size() > 1)
      for (LeftOut& entry : read.left_out) entry.file = join_path(paths_[p], entry.file);
    info.read.add(read);
  }
  if (options_.text_key_given) check_text_key_used(info.read, options_.text_key);
  info.bytes = info.read.text_bytes;
  return info;
}

TokenFileInfo TokenFileBuild::put_together() {
  const FileLock publishing = folder_->lock_publishing();
  if (folder_->is_published()) {
    auto info = read_token_file_info(env_, prefix_);
    check(info.has_value(), "'{}.meta.json': is gone, expected what another process has just written",
          prefix_);
    return std::move(*info);
  }
  std::map<int64_t, GroupRecord> groups;
  for (size_t g = 0; g < input_.groups().size(); ++g)
    groups.emplace(static_cast<int64_t>(g), *record_of(static_cast<int64_t>(g)));
  read_ = std::move(groups);
  info_of_all(read_);  // refuses before the work
  IndexedWriter writer(env_, prefix_, tokenizer_.vocab_size(), folder_->path("whole"));
  for (const auto& [group, record] : read_)
    for (int64_t part = 0; part < record.parts; ++part) {
      refuse_if_stopped(options_);
      writer.add_documents(IndexedDataset(folder_->part_prefix(group, part)));
    }
  state_.untraced_part = writer.untraced_part();
  if (!state_.untraced_part.empty()) report(false);
  return publish(*folder_, writer);
}

// Everything is whole and safe on the disk before anything at the prefix changes.
TokenFileInfo TokenFileBuild::publish(const BuildFolder& folder, IndexedWriter& writer) {
  input_.check_unchanged();
  TokenFileInfo info = info_of_all(read_);
  info.documents = writer.num_documents();
  info.tokens = writer.num_tokens();
  writer.sync();
  info.content_hash = writer.full_hash();
  const std::string meta = prefix_ + ".meta.json", new_meta = folder.path("meta.json");
  const auto file = env_.create(new_meta);
  file->append(token_file_info_json(info));
  file->sync();
  file->close();
  env_.remove_all(meta);  // from here on the files of an earlier build are not complete
  writer.finish();
  env_.rename(new_meta, meta);
  env_.sync_folder(parent_folder(meta));
  folder.mark_published();
  return info;
}

}  // namespace athanor::data::building
