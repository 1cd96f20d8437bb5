// Which tests a sanitized build leaves out is said in the test itself, with its reason:
//
//   TEST(Gloo, EveryCallBetweenProcesses) {
//     LEAVE_OUT_UNDER(thread_sanitizer, "it sees the threads of Gloo only in part");
//
// or in the SetUp() of a fixture. The test is then skipped, counted and named with its reason at the end of a run. Which
// folders a sanitized build tests at all stands in tests/CMakeLists.txt.
//
// A walk that would take hours is taken in part, by a fixed seed. ATHANOR_TEST_WHOLE=1 takes the whole, and =N each Nth part
// of it; =first takes all of those cases that have every value of each axis, and leaves those out that have every pair:
//
//   ATHANOR_TEST_WHOLE=1 build/release/tests/train_tests --gtest_filter='*SampledAllOrNothing*'
//
// Thread rule: in the test's own thread.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#ifndef __has_feature
#define __has_feature(feature) 0
#endif

namespace athanor::tests {

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
inline constexpr bool address_sanitizer = true;
#else
inline constexpr bool address_sanitizer = false;
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
inline constexpr bool thread_sanitizer = true;
#else
inline constexpr bool thread_sanitizer = false;
#endif
inline constexpr bool any_sanitizer = address_sanitizer || thread_sanitizer;

// N; 0: the part that every run of the tests takes.
inline int64_t whole_walks() {
  const char* each = std::getenv("ATHANOR_TEST_WHOLE");
  return each == nullptr ? 0 : std::max<int64_t>(1, std::atoll(each));
}

// The whole walk of the cases that have every value, none of the others.
inline bool walks_first_alone() {
  const char* each = std::getenv("ATHANOR_TEST_WHOLE");
  return each != nullptr && std::string_view(each) == "first";
}

// WHICH: one of the three above.
#define LEAVE_OUT_UNDER(WHICH, reason) \
  if (::athanor::tests::WHICH) GTEST_SKIP() << "left out under " #WHICH ": " << (reason)

}  // namespace athanor::tests
