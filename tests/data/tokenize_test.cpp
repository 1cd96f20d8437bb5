#include "athanor/data/tokenize.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "athanor/base/file_lock.h"
#include "athanor/base/interrupted.h"
#include "athanor/data/content_key.h"
#include "athanor/data/indexed_dataset.h"
#include "data/fakes.h"

namespace athanor::tests::tokenize_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TokenizeTest : public FolderTest {
 protected:
  std::string text_of(const std::string& prefix) {
    const IndexedDataset dataset(prefix);
    std::vector<int32_t> ids(static_cast<size_t>(dataset.num_tokens()));
    dataset.read(0, ids);
    return tokenizer_.decode(ids);
  }
  std::string cached(const std::string& source, const Tokenizer& tokenizer,
                     const std::string& text_key = "text") {
    return cached_token_file(env_, tokenizer, source, path("cache"), {text_key, 2, false, {}});
  }
  std::string cached(const std::string& source) { return cached(source, tokenizer_); }
  ByteTokenizer tokenizer_;
};

TEST_F(TokenizeTest, EndsEveryDocument) {
  write("f/a.txt", "hello");
  write("f/b.jsonl", "{\"text\":\"one\"}\n{\"text\":\"\"}\n{\"text\":\"<|endoftext|>\"}\n");
  write("f/c.bin", std::string("\0", 1));
  write("g.txt", "more");
  const TokenFileInfo info =
      build_token_file(env_, tokenizer_, {path("f"), path("g.txt")}, path("out/x"), {"text", 2, false, {}});
  const std::string end = "<|endoftext|>";
  EXPECT_EQ(text_of(path("out/x")), "hello" + end + "one" + end + end + end + "more" + end);
  EXPECT_EQ(info.documents, 4);
  EXPECT_EQ(info.bytes, 5 + 3 + 13 + 4);
  EXPECT_EQ(info.tokens, info.bytes + 4);  // the forged end of text is 13 ordinary bytes
  EXPECT_EQ(info.read.left_out.size(), 1u);
  EXPECT_EQ(info.end_of_text, 256);
  EXPECT_EQ(env_.list(path("out")),
            (std::vector<std::string>{"x.bin", "x.idx", "x.meta.json", "x.sources", "x.text_bytes"}));
  const auto read = read_token_file_info(env_, path("out/x"));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(token_file_info_json(*read), token_file_info_json(info));
  EXPECT_EQ(info.content_hash, IndexedDataset(path("out/x")).full_hash());
  EXPECT_EQ(read_token_file_info(env_, path("nothing")), std::nullopt);
}

TEST_F(TokenizeTest, AnyNumberOfThreadsWritesTheSameBytes) {
  std::string lines;
  for (int i = 0; i < 30000; ++i)
    lines += fmt::format("{{\"text\":\"{}\"}}\n", std::string(i % 977, 'a' + i % 26));
  write("a.jsonl", lines);
  for (const int threads : {1, 2, 5})
    build_token_file(env_, tokenizer_, {path("a.jsonl")}, path(fmt::format("t{}", threads)),
                     {"text", threads, false, {}});
  EXPECT_EQ(IndexedDataset(path("t1")).num_documents(), 30000 - 31);  // lines of no text
  for (const char* suffix : {".bin", ".idx"}) {
    EXPECT_EQ(env_.read_text(path("t2") + suffix), env_.read_text(path("t1") + suffix));
    EXPECT_EQ(env_.read_text(path("t5") + suffix), env_.read_text(path("t1") + suffix));
  }
}

TEST_F(TokenizeTest, ReportsProgress) {
  std::string lines;
  for (int i = 0; i < 20000; ++i) lines += "{\"text\":\"a document\"}\n";
  write("a.jsonl", lines);
  std::vector<TokenizeState> states;
  build_token_file(env_, tokenizer_, {path("a.jsonl")}, path("t"),
                   {"text", 1, false, [&](const TokenizeState& state) { states.push_back(state); }});
  ASSERT_GE(states.size(), 3u);
  for (size_t i = 0; i < states.size(); ++i) {
    EXPECT_EQ(states[i].bytes_total, lines.size());
    EXPECT_EQ(states[i].finished, i + 1 == states.size());
    if (i > 0) {
      EXPECT_GE(states[i].bytes_done, states[i - 1].bytes_done);
    }
  }
  EXPECT_EQ(states.back().bytes_done, lines.size());
  EXPECT_EQ(states.back().documents, 20000);
}

TEST_F(TokenizeTest, APathWithoutTextIsNamed) {
  std::filesystem::create_directories(path("empty"));
  EXPECT_THAT(failure_of([&] { cached(path("empty")); }), AllOf(HasSubstr("empty"), HasSubstr("no text")));
  EXPECT_THAT(failure_of([&] { cached(write("zero.txt", "")); }), HasSubstr("zero.txt"));
  EXPECT_THAT(failure_of([&] { cached(path("missing")); }), HasSubstr("missing"));
  for (const std::string& name : env_.list(path("cache"))) EXPECT_TRUE(name.ends_with(".lock")) << name;
}

TEST_F(TokenizeTest, TheCacheIsKeyedByContent) {
  write("f/a.txt", "hello");
  const std::string first = cached(path("f"));
  EXPECT_EQ(cached(path("f")), first);
  std::set<std::string> keys = {first};
  const auto is_new = [&](const std::string& prefix) { return keys.insert(prefix).second; };
  write("f/a.txt", "hellp");
  EXPECT_TRUE(is_new(cached(path("f"))));
  EXPECT_EQ(text_of(cached(path("f"))), "hellp<|endoftext|>");
  write("f/a.txt", "hello");
  EXPECT_FALSE(is_new(cached(path("f"))));
  write("f/b.txt", "x");
  EXPECT_TRUE(is_new(cached(path("f"))));
  std::filesystem::rename(path("f/b.txt"), path("f/c.txt"));
  EXPECT_TRUE(is_new(cached(path("f"))));
  EXPECT_TRUE(is_new(cached(path("f"), ByteTokenizer("other"))));
  write("j.jsonl", "{\"text\":\"a\",\"body\":\"b\"}\n");
  EXPECT_TRUE(is_new(cached(path("j.jsonl"))));
  EXPECT_TRUE(is_new(cached(path("j.jsonl"), tokenizer_, "body")));
}

TEST_F(TokenizeTest, ABuiltCacheIsNotTouchedAgain) {
  write("a.txt", "hello");
  const std::string prefix = cached(path("a.txt"));
  const auto built = std::filesystem::last_write_time(prefix + ".bin");
  FullDiskEnv full(0);  // would fail on the first byte written
  EXPECT_EQ(cached_token_file(full, tokenizer_, path("a.txt"), path("cache"), {}), prefix);
  EXPECT_EQ(std::filesystem::last_write_time(prefix + ".bin"), built);
  std::filesystem::remove(prefix + ".bin");
  EXPECT_EQ(cached(path("a.txt")), prefix);
  EXPECT_EQ(text_of(prefix), "hello<|endoftext|>");
}

TEST_F(TokenizeTest, AFullDiskLeavesNothingHalfMade) {
  write("a.txt", std::string(3000, 'x'));
  const int64_t needed = [&] {
    FullDiskEnv env(int64_t{1} << 40);
    cached_token_file(env, tokenizer_, path("a.txt"), path("dry"), {});
    return (int64_t{1} << 40) - env.left_bytes();
  }();
  for (int64_t capacity = 0; capacity < needed; capacity += 97) {
    FullDiskEnv full(capacity);
    EXPECT_THROW(cached_token_file(full, tokenizer_, path("a.txt"), path("cache"), {}), IoError) << capacity;
    for (const std::string& name : env_.list(path("cache"))) EXPECT_TRUE(name.ends_with(".lock")) << name;
  }
  EXPECT_EQ(text_of(cached(path("a.txt"))).size(), 3000u + 13);
}

TEST_F(TokenizeTest, LeftoversOfAKilledBuildAreRemoved) {
  write("a.txt", "hello");
  const std::string prefix = cached(path("a.txt"));
  std::filesystem::remove(prefix + ".meta.json");  // as if killed before the end
  write("cache/" + std::filesystem::path(prefix).filename().string() + ".build/whole.bin.tmp99999", "half");
  EXPECT_EQ(cached(path("a.txt")), prefix);
  for (const std::string& name : env_.list(path("cache")))
    EXPECT_EQ(name.find(".build"), std::string::npos) << name;
}

// Every process gets the same complete file, and exactly one of them builds it.
TEST_F(TokenizeTest, ManyProcessesAtOnceBuildOnce) {
  std::string lines;
  for (int i = 0; i < 20000; ++i) lines += fmt::format("{{\"text\":\"document {}\"}}\n", i);
  write("a.jsonl", lines);
  constexpr int kProcesses = 6;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      int code = 3;
      try {
        bool built = false;
        const std::string prefix = cached_token_file(
            env_, tokenizer_, path("a.jsonl"), path("cache"),
            {"text", 1, false, [&](const TokenizeState& state) { built |= state.finished; }});
        code = IndexedDataset(prefix).num_documents() == 20000 ? built : 2;
      } catch (...) {
      }
      ::_exit(code);
    }
    children.push_back(child);
  }
  int builders = 0;
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_LE(WEXITSTATUS(status), 1);
    builders += WEXITSTATUS(status) == 1;
  }
  EXPECT_EQ(builders, 1);
}

TEST_F(TokenizeTest, ThreadsExcludeEachOtherToo) {
  write("a.txt", std::string(100000, 'x'));
  std::atomic<int> built{0};
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank)
    ranks.emplace_back([&] {
      cached_token_file(env_, tokenizer_, path("a.txt"), path("cache"),
                        {"text", 1, false, [&](const TokenizeState& state) { built += state.finished; }});
    });
  for (auto& rank : ranks) rank.join();
  EXPECT_EQ(built, 1);
}

TEST_F(TokenizeTest, AWaiterIsTold) {
  std::promise<void> waiting;
  auto held = std::make_unique<FileLock>(path("lock"), [] { FAIL() << "nobody holds it"; });
  std::thread other([&] { const FileLock lock(path("lock"), [&] { waiting.set_value(); }); });
  waiting.get_future().wait();
  held.reset();
  other.join();
  EXPECT_THROW(FileLock(path("no/such/folder"), {}), IoError);
}

TEST_F(TokenizeTest, StampsSpareTheHashOfLargeCorpora) {
  write("a.txt", "hello");
  std::filesystem::create_directories(path("cache"));
  const auto files = list_sources(env_, path("a.txt")).files;
  const std::string key = content_key(env_, files, path("cache"), 1000);
  EXPECT_TRUE(env_.list(path("cache")).empty());  // small: no stamp
  EXPECT_EQ(content_key(env_, files, path("cache"), 1), key);
  EXPECT_TRUE(env_.list(path("cache")).empty());  // changed a moment ago: no stamp yet
  // A file whose change time is old, because this test did not make it.
  const auto old = list_sources(env_, "/usr/include/zlib.h").files;
  const std::string old_key = content_key(env_, old, path("cache"), 1);
  const auto stamps = env_.list(path("cache"));
  ASSERT_EQ(stamps.size(), 1u);
  EXPECT_EQ(content_key(env_, old, path("cache"), 1), old_key);
  write("cache/" + stamps[0], std::string(32, '7'));
  EXPECT_EQ(content_key(env_, old, path("cache"), 1), std::string(32, '7'));  // it was not hashed again
  write("cache/" + stamps[0], "damaged");
  EXPECT_EQ(content_key(env_, old, path("cache"), 1), old_key);
}

TEST_F(TokenizeTest, DamagedInfoIsNamed) {
  write("x.meta.json", "{\"format\": 2, \"documents\": \"many\"}");
  EXPECT_THAT(failure_of([&] { read_token_file_info(env_, path("x")); }), HasSubstr("x.meta.json"));
  for (const auto& [format, whose] : {std::pair("1", "an earlier"), {"3", "a later"}}) {
    write("x.meta.json", fmt::format("{{\"format\": {}}}", format));
    EXPECT_THAT(
        failure_of([&] { read_token_file_info(env_, path("x")); }),
        HasSubstr(fmt::format("x.meta.json': format {}, expected 2: {} version wrote it", format, whose)));
  }
  write("x.meta.json", "{");
  EXPECT_THAT(failure_of([&] { read_token_file_info(env_, path("x")); }), HasSubstr("x.meta.json"));
}

// A request to stop, before it begins or between two batches: no file of it stays, and the next call makes it.
TEST_F(TokenizeTest, GivesUpWhenAsked) {
  constexpr size_t kSizeBytes = 9'000'000;
  std::string text;
  text.resize(kSizeBytes, 'a');
  write("f/a.txt", text);
  write("f/b.txt", text);
  for (const int after : {0, 1}) {
    std::atomic<int> stop{after == 0 ? 15 : 0};
    TokenizeOptions options{.text_key = "text", .threads = 2, .progress = {}, .stop = &stop};
    options.progress = [&](const TokenizeState& state) {
      if (state.tokens > 0) stop = 15;
    };
    EXPECT_THROW(build_token_file(env_, tokenizer_, {path("f")}, path("out/x"), options), Interrupted);
    EXPECT_FALSE(env_.exists(path("out")) && !env_.list(path("out")).empty());
    EXPECT_THROW(cached_token_file(env_, tokenizer_, path("f"), path("cache"), options), Interrupted);
    for (const std::string& name : env_.list(path("cache"))) EXPECT_TRUE(name.ends_with(".lock")) << name;
  }
  EXPECT_TRUE(env_.exists(cached(path("f")) + ".bin"));
}

TEST_F(TokenizeTest, WaitingForAnotherProcessEndsWhenAsked) {
  const FileLock held(path("x.lock"), {});
  std::atomic<int> stop{0};
  EXPECT_THROW(FileLock(
                   path("x.lock"), [&] { stop = 15; }, &stop),
               Interrupted);
}

}  // namespace
}  // namespace athanor::tests::tokenize_test
