#include "athanor/base/hash.h"

#include <gtest/gtest.h>

#include "athanor/base/nearest.h"
#include "athanor/base/trace.h"

namespace athanor::tests::hash_test {
namespace {

TEST(Hash, Sha256KnownAnswer) {
  Sha256 sha;
  sha.update("abc");
  EXPECT_EQ(sha.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Hash, Crc32cKnownAnswer) {
  EXPECT_EQ(crc32c("123456789", 9), 0xe3069283u);
}

TEST(Hash, Hash128StreamsAsOnePiece) {
  Hash128 whole, parts;
  whole.update("hello world");
  parts.update("hello ");
  parts.update("world");
  EXPECT_EQ(whole.hex(), parts.hex());
  EXPECT_EQ(whole.hex().size(), 32u);
}

TEST(Nearest, FindsTypos) {
  EXPECT_EQ(nearest_name("stpes", {"steps", "seed", "name"}), "steps");
  EXPECT_EQ(nearest_name("zzzzzz", {"steps", "seed", "name"}), "");
}

TEST(Trace, SpansAreWrittenAsChromeEvents) {
  Trace trace;
  { const Span span(&trace, "back\"ward", "step"); }
  { const Span none(nullptr, "x", "y"); }
  ASSERT_EQ(trace.events().size(), 1u);
  EXPECT_NE(trace.chrome_json(3).find("\"back\\\"ward\""), std::string::npos);
  EXPECT_NE(trace.chrome_json(3).find("\"thread_name\""), std::string::npos);
}

}  // namespace
}  // namespace athanor::tests::hash_test
