// Texts without end: windows of sequences, what they are made of, and the readers of both kinds of sources.
#include "athanor/data/spool/spool.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <set>
#include <thread>

#include "athanor/base/philox.h"
#include "athanor/data/batch.h"
#include "athanor/data/spool/captured_input.h"
#include "athanor/data/spool/followed_folder.h"
#include "athanor/data/spool/window_writer.h"
#include "data/fakes.h"

namespace athanor::tests::spool_test {
namespace {

using athanor::data::spool::CapturedInput;
using athanor::data::spool::FollowedFolder;
using athanor::data::spool::SpoolPosition;
using athanor::data::spool::SpoolShape;
using athanor::data::spool::SpoolSource;
using athanor::data::spool::window_prefix;
using athanor::data::spool::WindowWriter;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using SpoolTest = FolderTest;
constexpr int64_t kVocabulary = 50'000;
SpoolShape small_shape() {
  return {.window = 3, .seq_len = 4};
}

// Documents of 0 to 29 tokens, each with ids of its own; some have a loss mask.
std::vector<MaskedIds> documents_of(uint64_t seed, int count) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<MaskedIds> documents;
  int32_t id = 1;
  for (int d = 0; d < count; ++d) {
    MaskedIds document{.ids = {}, .loss_mask = {}, .text_bytes = static_cast<int64_t>(random() % 90)};
    for (unsigned i = random() % 30; i > 0; --i) document.ids.push_back(id++);
    if (d % 3 == 0)
      for (size_t i = 0; i < document.ids.size(); ++i) document.loss_mask.push_back(random() % 2);
    documents.push_back(document);
  }
  return documents;
}

struct Windows {
  std::vector<int32_t> tokens;  // each once
  std::vector<uint8_t> counts;  // by the loss mask
  std::vector<int64_t> sizes;   // tokens of each window
  std::vector<std::string> hashes;
  bool operator==(const Windows&) const = default;
};

Windows read_windows(Env& env, const std::string& folder) {
  Windows all;
  for (int64_t w = 0; athanor::data::spool::read_window(env, folder, w); ++w) {
    const IndexedDataset window(window_prefix(folder, w));
    std::vector<int32_t> ids(static_cast<size_t>(window.num_tokens()));
    std::vector<uint8_t> counts(ids.size());
    window.read(0, ids);
    window.read_loss_mask(0, counts);
    if (w > 0) {
      EXPECT_EQ(ids.front(), all.tokens.back()) << "window " << w;  // what the window before ends with
      all.tokens.pop_back();
      all.counts.pop_back();
    }
    all.tokens.insert(all.tokens.end(), ids.begin(), ids.end());
    all.counts.insert(all.counts.end(), counts.begin(), counts.end());
    all.sizes.push_back(std::ssize(ids));
    all.hashes.push_back(window.full_hash());
  }
  return all;
}

void write_all(WindowWriter& writer, const std::vector<MaskedIds>& documents, size_t count) {
  for (size_t d = 0; d < count; ++d)
    writer.add(documents[d], {.source = static_cast<int64_t>(d / 4), .record = static_cast<int64_t>(d % 4)});
}

TEST_F(SpoolTest, WindowsAreTheStreamOfAllDocuments) {
  const auto documents = documents_of(1, 23);
  std::vector<int32_t> tokens;
  std::vector<uint8_t> counts;
  for (const MaskedIds& document : documents) {
    tokens.insert(tokens.end(), document.ids.begin(), document.ids.end());
    for (size_t i = 0; i < document.ids.size(); ++i)
      counts.push_back(document.loss_mask.empty() ? 1 : document.loss_mask[i]);
  }
  env_.create_folders(path("w"));
  WindowWriter writer(env_, path("w"), small_shape(), kVocabulary);
  write_all(writer, documents, documents.size());
  const int64_t whole = writer.num_windows();
  EXPECT_FALSE(athanor::data::spool::read_end(env_, path("w")));
  writer.end();
  const Windows windows = read_windows(env_, path("w"));
  const auto size = std::ssize(tokens);
  EXPECT_EQ(whole, (size - 1) / 12);
  EXPECT_EQ(windows.tokens, tokens);
  EXPECT_EQ(windows.counts, counts);
  for (int64_t w = 0; w < whole; ++w) EXPECT_EQ(windows.sizes[static_cast<size_t>(w)], 13);
  const auto end = athanor::data::spool::read_end(env_, path("w"));
  ASSERT_TRUE(end);
  EXPECT_EQ(end->sequences, (size - 1) / 4);
  EXPECT_EQ(end->windows, ((size - 1) / 4 + 2) / 3);
}

// The writer dies after each document; the next one reads on from where the last whole window ends.
TEST_F(SpoolTest, AWriterThatDiesLeavesTheSameWindows) {
  const auto documents = documents_of(2, 16);
  env_.create_folders(path("whole"));
  WindowWriter undisturbed(env_, path("whole"), small_shape(), kVocabulary);
  write_all(undisturbed, documents, documents.size());
  undisturbed.end();
  const Windows expected = read_windows(env_, path("whole"));
  ASSERT_GT(expected.sizes.size(), 10u);
  for (size_t died = 0; died <= documents.size(); ++died) {
    const std::string folder = path(fmt::format("died{}", died));
    env_.create_folders(folder);
    {
      WindowWriter first(env_, folder, small_shape(), kVocabulary);
      write_all(first, documents, died);
    }
    WindowWriter second(env_, folder, small_shape(), kVocabulary);
    const int64_t source = second.position().source;
    for (size_t d = static_cast<size_t>(source) * 4; d < documents.size(); ++d)
      second.add(documents[d],
                 {.source = static_cast<int64_t>(d / 4), .record = static_cast<int64_t>(d % 4)});
    second.end();
    EXPECT_EQ(read_windows(env_, folder), expected) << "after document " << died;
  }
}

TEST_F(SpoolTest, ATextThatEndsBeforeItsFirstSequenceIsRefused) {
  WindowWriter writer(env_, folder_, small_shape(), kVocabulary);
  writer.add({.ids = {1, 2, 3, 4}, .loss_mask = {}, .text_bytes = 4}, {});
  EXPECT_THAT(failure_of([&] { writer.end(); }), HasSubstr("has ended after 4 tokens, expected at least 5"));
}

struct Records {
  std::vector<std::string> texts;
  SpoolSource::Got drain(SpoolSource& source) {
    while (true)
      if (const auto got = source.read([&](std::string_view text, const SpoolPosition&, const std::string&) {
            texts.emplace_back(text);
          });
          got != SpoolSource::Got::records)
        return got;
  }
};

struct Pipe {
  Pipe() { EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0); }
  ~Pipe() {
    ::close(ends[0]);
    close_in();
  }
  void put(std::string_view text) const {
    EXPECT_EQ(::write(ends[1], text.data(), text.size()), std::ssize(text));
  }
  void close_in() {
    if (ends[1] >= 0) ::close(ends[1]);
    ends[1] = -1;
  }
  int ends[2] = {-1, -1};
};

TEST_F(SpoolTest, ARecordOfStandardInputIsReadOnceItsLineIsThere) {
  Pipe pipe;
  CapturedInput input(env_, folder_, pipe.ends[0], {}, 0);
  Records records;
  EXPECT_EQ(records.drain(input), SpoolSource::Got::nothing_yet);
  pipe.put("{\"text\": \"one\"}\n{\"text\": \"tw");
  EXPECT_EQ(records.drain(input), SpoolSource::Got::nothing_yet);
  EXPECT_THAT(records.texts, ElementsAre("one"));
  pipe.put("o\"}\n{\"text\": \"three\"}");
  EXPECT_EQ(records.drain(input), SpoolSource::Got::nothing_yet);
  EXPECT_THAT(records.texts, ElementsAre("one", "two"));
  pipe.close_in();
  EXPECT_EQ(records.drain(input), SpoolSource::Got::end);
  EXPECT_THAT(records.texts, ElementsAre("one", "two", "three"));
}

TEST_F(SpoolTest, PlainTextOfStandardInputIsDividedBySeparators) {
  Pipe pipe;
  CapturedInput input(env_, folder_, pipe.ends[0], {}, 0);
  Records records;
  pipe.put("first\nsecond line\n<|endof");
  records.drain(input);
  EXPECT_TRUE(records.texts.empty());
  pipe.put("text|>\n{\"text\": \"no JSON, since the first was none\"}\n<|endoftext|>\nrest");
  EXPECT_EQ(records.drain(input), SpoolSource::Got::nothing_yet);
  ASSERT_EQ(records.texts.size(), 2u);
  EXPECT_THAT(records.texts[0], HasSubstr("first\nsecond line"));
  EXPECT_THAT(records.texts[1], HasSubstr("{\"text\": \"no JSON"));
  pipe.close_in();
  EXPECT_EQ(records.drain(input), SpoolSource::Got::end);
  EXPECT_EQ(records.texts.back(), "rest");
}

// Whoever reads goes away between any two pieces; the next reader starts where windows end, and gets all that is not in them.
TEST_F(SpoolTest, NothingOfStandardInputIsLostWithItsReader) {
  std::mt19937 random(5);
  std::string text;
  std::vector<std::string> expected;
  for (int i = 0; i < 300; ++i) {
    expected.push_back(fmt::format("record {} {}", i, std::string(random() % 200, 'x')));
    text += fmt::format("{{\"text\": \"{}\"}}\n", expected.back());
  }
  Pipe pipe;
  std::vector<std::string> texts;
  SpoolPosition next;  // the record after the last that is kept
  for (size_t at = 0; at < text.size() || pipe.ends[1] >= 0;) {
    CapturedInput input(env_, folder_, pipe.ends[0], {}, next.source);
    for (unsigned pieces = random() % 4; pieces > 0 && at < text.size(); --pieces) {
      const size_t size = std::min<size_t>(random() % 700, text.size() - at);
      pipe.put(std::string_view(text).substr(at, size));
      at += size;
      const auto take = [&](std::string_view record, const SpoolPosition& position, const std::string&) {
        if (std::pair(position.source, position.record) < std::pair(next.source, next.record)) return;
        if (random() % 4 == 0) throw Error("the reader dies");
        texts.emplace_back(record);
        next = {.source = position.source, .record = position.record + 1};
      };
      try {
        input.read(take);
      } catch (const Error&) {
        break;
      }
    }
    if (at == text.size()) pipe.close_in();
  }
  while (true) {
    CapturedInput input(env_, folder_, pipe.ends[0], {}, next.source);
    const auto got =
        input.read([&](std::string_view record, const SpoolPosition& position, const std::string&) {
          if (std::pair(position.source, position.record) < std::pair(next.source, next.record)) return;
          texts.emplace_back(record);
          next = {.source = position.source, .record = position.record + 1};
        });
    if (got == SpoolSource::Got::end || texts.size() >= expected.size()) break;
  }
  EXPECT_EQ(texts, expected);
}

TEST_F(SpoolTest, AFileAsStandardInputIsReadFromWhereTheLastReaderStopped) {
  const std::string file = write("in.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  for (int reader = 0; reader < 2; ++reader) {
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    Records records;
    CapturedInput input(env_, folder_, fd, {}, 0);
    EXPECT_EQ(records.drain(input), SpoolSource::Got::end);
    EXPECT_THAT(records.texts, ElementsAre("one", "two"));
    ::close(fd);
  }
}

TEST_F(SpoolTest, StandardInputThatHasNoRecordsIsRefused) {
  const std::vector<std::pair<std::string, std::string>> refused = {
      {gzip("{\"text\": \"one\"}\n"), "is compressed with gzip, expected JSON lines or text"},
      {"[{\"text\": \"one\"}]\n", "is a JSON array"},
      {"%PDF-1.7 \n", "is a PDF document"}};
  int number = 0;
  for (const auto& [bytes, message] : refused) {
    const std::string folder = path(fmt::format("in{}", number++));
    env_.create_folders(folder);
    Pipe pipe;
    pipe.put(bytes);
    CapturedInput input(env_, folder, pipe.ends[0], {}, 0);
    Records records;
    std::string said;
    try {
      records.drain(input);
    } catch (const ConfigError& error) {
      said = error.what() + error.hint();
    }
    EXPECT_THAT(said, HasSubstr(message));
  }
}

TEST_F(SpoolTest, AFolderIsReadInTheOrderInWhichItsFilesCome) {
  env_.create_folders(path("spool"));
  write("in/b.jsonl", "{\"text\": \"b\"}\n");
  write("in/c.txt", "c");
  FollowedFolder folder(env_, path("spool"), path("in"), {}, 0);
  Records records;
  EXPECT_EQ(records.drain(folder), SpoolSource::Got::nothing_yet);
  write("in/a.txt", "a");
  write("in/d.txt.tmp", "not whole yet");
  write("in/.e", "hidden");
  EXPECT_EQ(records.drain(folder), SpoolSource::Got::nothing_yet);
  EXPECT_THAT(records.texts, ElementsAre("b", "c", "a"));
  env_.rename(path("in/d.txt.tmp"), path("in/d.txt"));
  write("in/_SUCCESS", "");
  EXPECT_EQ(records.drain(folder), SpoolSource::Got::end);
  EXPECT_THAT(records.texts, ElementsAre("b", "c", "a", "not whole yet"));

  FollowedFolder again(env_, path("spool"), path("in"), {},
                       /*first_file=*/2);  // a process that goes on takes the same
  records.texts.clear();
  EXPECT_EQ(records.drain(again), SpoolSource::Got::end);
  EXPECT_THAT(records.texts, ElementsAre("a", "not whole yet"));
}

TEST_F(SpoolTest, AFileThatWasTakenMustStayAsItWas) {
  env_.create_folders(path("spool"));
  write("in/a.txt", "a");
  Records records;
  FollowedFolder first(env_, path("spool"), path("in"), {}, 0);
  records.drain(first);
  write("in/a.txt", "longer");
  FollowedFolder second(env_, path("spool"), path("in"), {}, 0);
  EXPECT_THAT(failure_of([&] { records.drain(second); }),
              HasSubstr("has 6 bytes, but had 1 when it was taken"));
  env_.remove_all(path("in/a.txt"));
  FollowedFolder third(env_, path("spool"), path("in"), {}, 0);
  EXPECT_THAT(failure_of([&] { records.drain(third); }), HasSubstr("was taken into"));
}

// Eight characters, others in each of the first eleven documents.
std::string text_of(int64_t document) {
  std::string text;
  for (int64_t i = 0; i < 8; ++i) text += static_cast<char>('!' + (document * 8 + i) % 90);
  return text;
}

// A channel of 5 sequences a window and an ordinary one; the text ends within its third window.
struct StreamSetUp {
  explicit StreamSetUp(const std::string& root, int64_t documents, bool has_end = true)
      : tokenizer(std::make_shared<ByteTokenizer>()), folder(root + "/in") {
    Env& env = system_env();
    env.create_folders(folder);
    for (int64_t d = 0; d < documents; ++d) {
      const auto file = env.create(fmt::format("{}/{:04}.txt", folder, d));
      file->append(text_of(d));  // with its end of text nine tokens
      file->close();
    }
    if (has_end) env.create(folder + "/_SUCCESS")->close();
    spool = std::make_shared<Spool>(env, tokenizer,
                                    SpoolOptions{.folder = root + "/spool",
                                                 .path = folder,
                                                 .shape = {.window = 5, .seq_len = 4},
                                                 .vocab_size = 257});
    channels.emplace_back(ChannelOptions{.name = "live", .weight = 1.0, .seq_len = 4, .vocab_size = 257},
                          spool, std::make_shared<TokenBytes>(tokenizer));
  }
  std::shared_ptr<const Tokenizer> tokenizer;
  std::string folder;
  std::shared_ptr<const Spool> spool;
  std::vector<Channel> channels;
};

void wait_for(const std::function<bool()>& what) {
  while (!what()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// 6 documents of 9 tokens: 54 tokens, 13 sequences of 4, two windows of 5 and one of 3.
TEST_F(SpoolTest, EachSequenceIsReadOnceAndTheRestOfTheLastWindowIsEmpty) {
  const StreamSetUp up(folder_, 6);
  std::vector<int32_t> stream;
  for (int d = 0; d < 6; ++d) {
    const auto ids = up.tokenizer->encode_document(text_of(d));
    stream.insert(stream.end(), ids.begin(), ids.end());
  }
  const BatchReader reader(up.channels, make_sampler(up.channels, /*seed=*/7, /*global_batch=*/2), 2);
  std::map<std::vector<int32_t>, int> seen;
  int empty = 0;
  std::vector<std::vector<int32_t>> order;
  int64_t step = 1;
  for (;; ++step) {
    wait_for([&] { return reader.has(step); });
    if (reader.ended_before(step)) break;
    Batch batch;
    reader.read(step, 0, batch);
    for (size_t b = 0; b < 2; ++b) {
      std::vector<int32_t> ids(batch.tokens.begin() + static_cast<std::ptrdiff_t>(b * 4),
                               batch.tokens.begin() + static_cast<std::ptrdiff_t>(b * 4 + 4));
      if (batch.targets[b * 4] == kNoTarget) {
        ++empty;
        continue;
      }
      ids.push_back(batch.targets[b * 4 + 3]);
      ++seen[ids];
      order.push_back(ids);
    }
  }
  ASSERT_EQ(seen.size(), 13u);
  std::vector<std::vector<int32_t>> in_order;
  for (int64_t s = 0; s < 13; ++s) in_order.emplace_back(stream.begin() + s * 4, stream.begin() + s * 4 + 5);
  for (const auto& sequence : in_order) EXPECT_EQ(seen[sequence], 1);
  EXPECT_NE(order, in_order);  // shuffled, but within windows
  for (int64_t w = 0; w < 3; ++w)
    EXPECT_TRUE(std::is_permutation(order.begin() + w * 5, order.begin() + std::min<int64_t>(w * 5 + 5, 13),
                                    in_order.begin() + w * 5))
        << "window " << w;
  EXPECT_EQ((step - 1) * 2, 13 + empty);
  EXPECT_EQ(reader.ended_before(step), "live");
  // The ledger knows of what is not there.
  const Sampler ended = make_sampler(up.channels, 7, 2);
  int absent = 0;
  for (int64_t s = 1; s < step; ++s)
    for (int64_t slot = 0; slot < 2; ++slot) absent += ended.sample(s, slot).absent ? 1 : 0;
  EXPECT_EQ(absent, empty);
}

TEST_F(SpoolTest, AStepIsWaitedForUntilItsWindowIsWholeOrTheTextHasEnded) {
  const StreamSetUp up(folder_, 4, /*has_end=*/false);  // 36 tokens: 8 sequences, one whole window
  const BatchReader reader(up.channels, make_sampler(up.channels, 7, 5), 5);
  wait_for([&] { return reader.has(1); });
  EXPECT_FALSE(reader.ended_before(1));
  EXPECT_FALSE(reader.has(2));
  system_env().create(up.folder + "/_SUCCESS")->close();
  wait_for([&] { return reader.has(2); });
  EXPECT_FALSE(reader.ended_before(2));  // three of its five places are filled
  EXPECT_TRUE(reader.has(3));
  EXPECT_EQ(reader.ended_before(3), "live");
}

TEST_F(SpoolTest, TheWriterIsNoMoreThanTwoWindowsAheadOfItsReaders) {
  const StreamSetUp up(folder_, 40);
  wait_for([&] { return up.spool->has(0); });
  const auto written = [&] {
    int64_t windows = 0;
    while (athanor::data::spool::read_window(env_, folder_ + "/spool", windows)) ++windows;
    return windows;
  };
  wait_for([&] { return written() >= 1 + athanor::data::spool::kWindowsAhead; });
  EXPECT_EQ(written(), 1 + athanor::data::spool::kWindowsAhead);
  wait_for([&] { return up.spool->has(6); });
  EXPECT_LE(written(), 7 + athanor::data::spool::kWindowsAhead);
}

TEST_F(SpoolTest, WhatTheWriterFailsWithIsToldToItsReaders) {
  env_.create_folders(path("in"));
  write("in/a.jsonl", "{\"text\": 7}\n");
  const StreamSetUp up(folder_, 0, false);
  EXPECT_THAT(failure_of([&] { wait_for([&] { return up.spool->has(0); }); }), HasSubstr("a.jsonl"));
}

TEST_F(SpoolTest, ASpoolOfAnotherShapeIsRefused) {
  { const StreamSetUp up(folder_, 4); }
  const auto open = [&](int64_t window, const std::string& salt) {
    return failure_of([&] {
      const Spool other(env_, std::make_shared<ByteTokenizer>(salt),
                        {.folder = folder_ + "/spool",
                         .path = path("in"),
                         .shape = {.window = window, .seq_len = 4},
                         .vocab_size = 257});
    });
  };
  EXPECT_EQ(open(5, ""), "");
  EXPECT_THAT(open(6, ""), HasSubstr("data.shuffle_window: got 6, but"));
  EXPECT_THAT(open(5, "other"), HasSubstr("tokenizer: got"));
}

}  // namespace
}  // namespace athanor::tests::spool_test
