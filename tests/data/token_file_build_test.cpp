// Token files made in parts: the same bytes however they are cut, shared, killed and gone on with.
#include "athanor/data/building/token_file_build.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <thread>

#include "athanor/base/interrupted.h"
#include "data/fakes.h"
#include "support/fault_env.h"
#include "support/power_env.h"

namespace athanor::tests::token_file_build_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TokenFileBuildTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    std::string lines;
    for (int i = 0; i < 60; ++i)
      lines += fmt::format("{{\"text\":\"{}\"}}\n",
                           std::string(static_cast<size_t>(1 + i * 7 % 40), 'a' + i % 26));
    write("f/a.jsonl", lines);
    write("f/b.txt", "a text\n<|endoftext|>\nand another one\n");
    write("f/c.bin", std::string("\0", 1));  // left out
    for (int i = 0; i < 5; ++i) write(fmt::format("f/d{}.txt", i), fmt::format("document {}", i));
    write("g.jsonl",
          "{\"text\":\"the last one\"}\n{\"text\":\"\"}\n{\"text\":\"" + std::string(500, 'z') + "\"}\n");
    build(env_, "whole", {});
    whole_ = files("whole");
  }
  TokenFileInfo build(Env& env, const std::string& name, const TokenizeOptions& options) {
    std::vector<std::string> paths;
    for (const std::string& path_name : paths_) paths.push_back(path(path_name));
    return build_token_file(env, tokenizer_, paths, path(name), options);
  }
  // Two parts of one file and one of two others: so few operations that each can be the last.
  void use_little_text() {
    const auto line = [](char letter) {
      return fmt::format("{{\"text\":\"{}\"}}\n", std::string(130, letter));
    };
    write("s/a.jsonl", line('a') + line('b') + line('c'));
    write("s/b.txt", "a text");
    write("s/c.txt", "and another one");
    paths_ = {"s"};
    build(env_, "whole", {});
    whole_ = files("whole");
  }
  TokenFileInfo in_parts(Env& env, const std::string& name) { return build(env, name, {.part_bytes = 200}); }
  // The files of a token file by suffix; the prefix stands in none of them.
  std::map<std::string, std::string> files(const std::string& name) {
    std::map<std::string, std::string> found;
    for (const std::string& file : env_.list(folder_))
      if (file.starts_with(name + ".") && !env_.is_folder(path(file)))
        found[file.substr(name.size())] = env_.read_text(path(file));
    return found;
  }
  // All calls that change the disk; nothing is left of it.
  int64_t calls_of_a_build() {
    FaultEnv env(int64_t{1} << 40);
    in_parts(env, "x");
    remove_x();
    return env.calls();
  }
  void remove_x() {
    for (const auto& [suffix, bytes] : whole_) env_.remove_all(path("x" + suffix));
  }
  bool has_leftovers(const std::string& name) {
    for (const std::string& file : env_.list(folder_))
      if (file.starts_with(name + ".build") || file.find(".tmp") != std::string::npos) return true;
    return false;
  }
  std::vector<std::string> paths_ = {"f", "g.jsonl"};
  ByteTokenizer tokenizer_;
  FaultEnv quick_{int64_t{1} << 40};  // syncs nothing
  std::map<std::string, std::string> whole_;
};

TEST_F(TokenFileBuildTest, PartsOfAnySizeGiveTheSameBytes) {
  EXPECT_EQ(whole_.size(), 5u);  // .bin .idx .text_bytes .sources .meta.json
  for (const uint64_t part_bytes : {1, 7, 100, 300, 1000, 2000, 100000})
    for (const int threads : {1, 3}) {
      build(quick_, "x", {.threads = threads, .part_bytes = part_bytes});
      EXPECT_EQ(files("x"), whole_) << part_bytes;
      EXPECT_FALSE(has_leftovers("x")) << part_bytes;
    }
}

TEST_F(TokenFileBuildTest, WhatManySaidIsSaidOnce) {
  const TokenFileInfo whole = build(env_, "whole", {}), parts = in_parts(env_, "x");
  EXPECT_EQ(token_file_info_json(parts), token_file_info_json(whole));
  EXPECT_EQ(parts.read.left_out.size(), 1u);
  EXPECT_EQ(parts.documents, 69);
}

// Killed at every operation that changes the disk, after which the power fails or not, and started again.
TEST_F(TokenFileBuildTest, GoesOnAfterAKillAtAnyOperation) {
  use_little_text();
  const auto operations = [&] {
    PowerEnv env(folder_);
    in_parts(env, "x");
    return env.operations();
  }();
  const int64_t undisturbed = std::ssize(operations);
  EXPECT_GT(undisturbed, 80);
  const auto parts_made = [](const std::vector<FileOperation>& of, int64_t before) {
    return std::count_if(of.begin(), of.begin() + std::max<int64_t>(before, 0),
                         [](const FileOperation& each) {
                           return each.name.starts_with("rename") && each.name.ends_with(".idx") &&
                                  each.name.find("part-") != std::string::npos;
                         });
  };
  EXPECT_EQ(parts_made(operations, undisturbed), 3);
  int64_t whole_at = 0;  // from the operation behind it on nobody needs the parts any more
  for (int64_t at = 0; at < undisturbed; ++at)
    if (operations[static_cast<size_t>(at)].name.find("x.meta.json") != std::string::npos) whole_at = at;
  EXPECT_GT(whole_at, 60);
  std::filesystem::remove_all(path("x.build"));
  for (const bool power_fails : {false, true})
    for (int64_t at = 0; at < undisturbed; ++at) {
      remove_x();
      PowerEnv env(folder_, at);
      try {
        in_parts(env, "x");
        EXPECT_EQ(at, undisturbed - 1);  // all is there but for the folder that is to be removed
      } catch (const IoError&) {
      }
      if (power_fails) env.cut();
      PowerEnv again(folder_);
      in_parts(again, "x");
      EXPECT_EQ(files("x"), whole_) << at << (power_fails ? " and the power" : "");
      EXPECT_FALSE(has_leftovers("x")) << at;
      if (at > whole_at) continue;
      // A part is done once its folder is synced behind the rename.
      EXPECT_EQ(parts_made(again.operations(), std::ssize(again.operations())),
                3 - parts_made(operations, power_fails ? at - 1 : at))
          << at << (power_fails ? " and the power" : "");
    }
}

// A data set that is there is as it was until the new one takes its place: whole at any kill, or without an index.
TEST_F(TokenFileBuildTest, WhatWasThereIsThereUntilTheNewOneIsWhole) {
  use_little_text();
  const auto make_old = [&] {
    IndexedWriter writer(env_, path("x"), 100);
    writer.add_document(std::vector<int32_t>(9, 5), 9);
    writer.finish();
    write("x.meta.json", "{}");
  };
  make_old();
  const auto old = files("x");
  const int64_t calls = calls_of_a_build();
  int64_t old_seen = 0, between = 0, new_seen = 0;
  for (int64_t at = 0; at < calls; ++at) {
    std::filesystem::remove_all(path("x.build"));
    remove_x();
    make_old();
    FaultEnv env(at, FaultEnv::Fault::kill);
    try {
      in_parts(env, "x");
    } catch (const IoError&) {
    }
    auto found = files("x");
    if (found == old) {
      ++old_seen;
      EXPECT_EQ(between, 0) << at;
    } else if (found == whole_) {
      ++new_seen;
    } else {  // all of the new one is on the disk, and the same call puts it there
      ++between;
      if (found.contains(".idx")) {  // what lies there is the old one or the new one, without its .meta.json
        EXPECT_FALSE(found.contains(".meta.json"));
        found[".meta.json"] = (found.at(".bin") == old.at(".bin") ? old : whole_).at(".meta.json");
        EXPECT_TRUE(found == old || found == whole_) << at;
      }
      in_parts(quick_, "x");
      EXPECT_EQ(files("x"), whole_) << at;
    }
  }
  EXPECT_GT(old_seen, 20);
  EXPECT_LE(between, 12);
  EXPECT_GE(new_seen, 1);
}

// An error of the disk that passes: what is done stays, and nothing else.
TEST_F(TokenFileBuildTest, AFailureLeavesOnlyWhatIsDone) {
  use_little_text();
  const int64_t calls = calls_of_a_build();
  for (int64_t at = 0; at < calls; ++at) {
    FaultEnv env(at);
    try {
      in_parts(env, "x");
    } catch (const IoError&) {
      in_parts(quick_, "x");
    }
    EXPECT_EQ(files("x"), whole_) << at;
    EXPECT_EQ(has_leftovers("x"), at == calls - 1) << at;  // that call is the folder's removal
    remove_x();
  }
  // Before the first part is done there is nothing to keep.
  FullDiskEnv full(100);
  EXPECT_THROW(in_parts(full, "x"), IoError);
  EXPECT_FALSE(has_leftovers("x"));
}

TEST_F(TokenFileBuildTest, SaysWhetherItGoesOn) {
  const auto told = [&](TokenizeOptions options) {
    std::string said;
    options.progress = [&](const TokenizeState& state) {
      if (state.parts_found > 0) said += fmt::format("goes on from {} ", state.parts_found);
      if (state.starts_anew) said += "anew ";
      if (state.waiting) said += "waits ";
    };
    build(env_, "x", options);
    EXPECT_EQ(files("x").at(".bin").size() % 2, 0u);
    return said;
  };
  const auto stop_after_parts = [&](int parts) {
    std::atomic<int> stop{0};
    TokenizeOptions options{.part_bytes = 200};
    options.stop = &stop;
    options.progress = [&](const TokenizeState&) {
      if (env_.exists(path(fmt::format("x.build/part-000000-{:06}.idx", parts - 1)))) stop = 2;
    };
    EXPECT_THROW(build(env_, "x", options), Interrupted);
  };
  EXPECT_EQ(told({.part_bytes = 200}), "");
  stop_after_parts(3);
  EXPECT_EQ(told({.part_bytes = 200}), "goes on from 3 ");
  EXPECT_EQ(files("x"), whole_);
  EXPECT_EQ(told({.part_bytes = 200}), "");  // a build that is done is no unfinished one
  stop_after_parts(2);
  EXPECT_EQ(told({.threads = 3, .part_bytes = 200}), "goes on from 2 ");
  stop_after_parts(2);
  EXPECT_EQ(told({.part_bytes = 201}), "anew ");
  stop_after_parts(2);
  EXPECT_EQ(told({}), "anew ");  // in one part
  EXPECT_EQ(files("x"), whole_);
  stop_after_parts(2);
  write("g.jsonl",
        "{\"text\":\"the past one\"}\n{\"text\":\"\"}\n{\"text\":\"" + std::string(500, 'z') + "\"}\n");
  EXPECT_EQ(told({.part_bytes = 200}), "anew ");
  EXPECT_NE(files("x"), whole_);
  stop_after_parts(2);
  tokenizer_ = ByteTokenizer("another one");
  EXPECT_EQ(told({.part_bytes = 200}), "anew ");
  EXPECT_FALSE(has_leftovers("x"));
}

// What a token came from is told for all documents or for none, so a part without it costs that of all.
TEST_F(TokenFileBuildTest, APartThatLostItsSourcesIsNamed) {
  std::atomic<int> stop{0};
  TokenizeOptions options{.part_bytes = 200};
  options.stop = &stop;
  options.progress = [&](const TokenizeState&) {
    if (env_.exists(path("x.build/part-000000-000002.idx"))) stop = 2;
  };
  EXPECT_THROW(build(env_, "x", options), Interrupted);
  ASSERT_TRUE(env_.exists(path("x.build/part-000000-000001.sources")));
  env_.remove_all(path("x.build/part-000000-000001.sources"));
  std::vector<std::string> named;
  options.stop = nullptr;
  options.progress = [&](const TokenizeState& state) {
    if (!state.untraced_part.empty()) named.push_back(state.untraced_part);
  };
  build(env_, "x", options);
  EXPECT_THAT(named, ElementsAre(path("x.build/part-000000-000001")));
  auto expected = whole_;
  expected.erase(".sources");
  EXPECT_EQ(files("x"), expected);
  named.clear();
  build(env_, "x", options);
  EXPECT_THAT(named, IsEmpty());
  EXPECT_EQ(files("x"), whole_);
}

TEST_F(TokenFileBuildTest, ManyAtOnceShareTheWork) {
  std::string lines;
  for (int i = 0; i < 3000; ++i) lines += fmt::format("{{\"text\":\"document {}\"}}\n", i);
  write("f/large.jsonl", lines);
  build(env_, "whole", {});
  for (const int builders : {2, 5}) {
    std::vector<std::thread> threads;
    std::atomic<int64_t> parts{0};
    for (int b = 0; b < builders; ++b)
      threads.emplace_back([&] {
        PowerEnv counting(folder_);
        build(counting, "x", {.part_bytes = 500});
        for (const FileOperation& operation : counting.operations())
          parts += operation.name.starts_with("rename") && operation.name.ends_with(".idx") &&
                   operation.name.find("part-") != std::string::npos;
      });
    for (auto& thread : threads) thread.join();
    auto expected = files("whole");
    EXPECT_EQ(files("x"), expected) << builders;
    EXPECT_FALSE(has_leftovers("x"));
    // Each part once; the builder that comes when all is published makes it again, which no lock can know.
    EXPECT_GE(parts, 60);
    for (const auto& [suffix, bytes] : expected) env_.remove_all(path("x" + suffix));
  }
}

TEST_F(TokenFileBuildTest, AFileThatChangesMeanwhileIsNamed) {
  TokenizeOptions options{.part_bytes = 200};
  bool changed = false;
  options.progress = [&](const TokenizeState& state) {
    if (state.tokens > 100 && !std::exchange(changed, true)) write("g.jsonl", "{\"text\":\"new\"}\n");
  };
  EXPECT_THAT(failure_of([&] { build(env_, "x", options); }), HasSubstr("g.jsonl"));
  EXPECT_THAT(files("x"), IsEmpty());
  build(env_, "x", {.part_bytes = 200});
  EXPECT_NE(files("x"), whole_);
  EXPECT_FALSE(has_leftovers("x"));
}

// Numbers of documents do not stay in memory.
TEST_F(TokenFileBuildTest, ManyDocumentsAreTheSameByWayOfAFile) {
  constexpr int64_t kDocuments = 3 * NumberFile::kInMemory + 17;
  IndexedWriter writer(env_, path("many"), 100);
  for (int64_t d = 0; d < kDocuments; ++d) {
    const DocumentSource source{"a", d, d + 1};
    writer.add_document(std::vector<int32_t>(static_cast<size_t>(d % 3), 7), d % 11, {}, &source);
  }
  writer.finish();
  const IndexedDataset dataset(path("many"));
  ASSERT_EQ(dataset.num_documents(), kDocuments);
  int64_t start = 0;
  for (int64_t d = 0; d < kDocuments; ++d) {
    ASSERT_EQ(dataset.document_start(d), start);
    ASSERT_EQ(dataset.text_bytes_of(d), d % 11);
    start += d % 3;
  }
  EXPECT_EQ(dataset.open_sources()->of(kDocuments - 1), (DocumentSource{"a", kDocuments - 1, kDocuments}));
  EXPECT_FALSE(has_leftovers("many"));
}

}  // namespace
}  // namespace athanor::tests::token_file_build_test
