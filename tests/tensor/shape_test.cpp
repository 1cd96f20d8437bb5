#include "athanor/tensor/shape.h"

#include <gtest/gtest.h>

namespace athanor::tests::shape_test {
namespace {

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

TEST(Shape, CountsItsElements) {
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ((Shape{2, 3, 4}).numel(), 24);
  EXPECT_EQ((Shape{2, 3, 4}).rows(), 6);
  EXPECT_EQ((Shape{5, 0}).numel(), 0);
  EXPECT_EQ((Shape{5, 0}).rows(), 0);
  EXPECT_EQ((Shape{int64_t{1} << 30, int64_t{1} << 28}).numel(), int64_t{1} << 58);
}

TEST(Shape, RefusesMoreElementsThanCanBeCounted) {
  EXPECT_EQ(error_of([] {
              (void)Shape{999999999, 99999999, 768}.numel();
            }),
            "shape: got [999999999,99999999,768], expected fewer than 2^59 elements");
  EXPECT_EQ(error_of([] {
              (void)Shape{INT64_MAX, INT64_MAX}.numel();
            }),
            "shape: got [9223372036854775807,9223372036854775807], expected fewer than 2^59 elements");
  EXPECT_EQ((Shape{INT64_MAX, 0, INT64_MAX}).numel(), 0);
}

}  // namespace
}  // namespace athanor::tests::shape_test
