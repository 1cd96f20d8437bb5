// Whoever adds does not wait for the reader, in bounded memory, and nothing is lost without a word.
#include "athanor/launch/output/writer_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>

namespace athanor::tests::writer_thread_test {
namespace {

TEST(WriterThread, WritesAllInOrder) {
  std::string written, expected;
  {
    WriterThread writer([&](std::string_view text) { written += text; });
    for (int i = 0; i < 1000; ++i) {
      const std::string line = std::to_string(i) + "\n";
      expected += line;
      writer.add(line);
    }
  }
  EXPECT_EQ(written, expected);
}

TEST(WriterThread, AReaderWhoDoesNotReadKeepsNobodyAndIsToldWhatHeMissed) {
  std::promise<void> begins, reads;
  std::string written;
  {
    WriterThread writer([&, is_first = true](std::string_view text) mutable {
      if (std::exchange(is_first, false)) {
        begins.set_value();
        reads.get_future().wait();
      }
      written += text;
    });
    writer.add("first\n");
    begins.get_future().wait();
    const std::string block(1 << 20, 'x');
    for (int i = 0; i < 10; ++i) writer.add(block);
    reads.set_value();
  }
  EXPECT_EQ(written, "first\n" + std::string(4 << 20, 'x') +
                         "\n6.0 MiB were not shown: nobody read what was before them\n");
}

}  // namespace
}  // namespace athanor::tests::writer_thread_test
