// What the tests of checkpoints write: a temporary folder, and a handful of tensors of all kinds of shapes.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "athanor/checkpoint/checkpoint.h"
#include "athanor/comm/shm/thread.h"
#include "support/engine.h"

namespace athanor::tests {

class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "athanor_test_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw Error("no temporary folder");
    path_ = name;
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

struct TestContent {
  TestContent() {
    int seed = 0;
    for (const Shape& shape : {Shape{7, 5}, Shape{33}, Shape{}, Shape{0, 4}, Shape{2, 3, 4, 5}, Shape{64, 3}})
      tensors.push_back({"model.part" + std::to_string(seed), engine.random(shape, std::to_string(++seed))});
    // Negative zero and NaN are values like any other.
    tensors[1].tensor.data<float>()[3] = -0.0f;
    tensors[1].tensor.data<float>()[4] = std::bit_cast<float>(0x7fc12345u);
  }
  CheckpointContent content(int64_t step) const {
    return {.step = step,
            .state = R"({"step":)" + std::to_string(step) + R"(,"tokens":12345,"seed":18446744073709551615})",
            .tensors = tensors,
            .files = {{"config.resolved.toml", "[model]\n"}, {"tokenizer.json", "{\"name\": \"\u00e9\"}"}}};
  }
  void expect_equal(const Checkpoint& checkpoint) const {
    ASSERT_EQ(checkpoint.tensors().size(), tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(checkpoint.tensors()[i].name, tensors[i].name);
      const Tensor& tensor = tensors[i].tensor;
      std::vector<float> values(static_cast<size_t>(tensor.numel()), 7.0f);
      checkpoint.read(tensors[i].name, tensor.shape(), values.data());
      // An empty one has no address to compare.
      EXPECT_TRUE(values.empty() || std::memcmp(values.data(), tensor.raw(), tensor.size_bytes()) == 0)
          << tensors[i].name;
    }
    for (const auto& file : content(0).files) EXPECT_EQ(checkpoint.file_text(file.name), file.text);
  }

  Engine engine;
  std::vector<NamedTensor> tensors;
};

}  // namespace athanor::tests
