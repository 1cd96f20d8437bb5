// Bytes that are not those that were written are refused, wherever they are, and the file is named.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "athanor/base/format_version.h"
#include "athanor/base/hash.h"
#include "athanor/checkpoint/format/manifest.h"
#include "athanor/store/safetensors.h"
#include "checkpoint/content.h"
#include "support/fault_env.h"

namespace athanor::tests::damage_test {
namespace {

namespace fs = std::filesystem;

std::string read(const std::string& path) {
  return system_env().read_text(path);
}

void overwrite(const std::string& path, const std::string& bytes) {
  fs::remove(path);  // some file systems write out at once what is truncated
  std::ofstream(path, std::ios::binary) << bytes;
}

// Why a checkpoint is refused, empty where it is not.
std::string complaint(const std::string& path) {
  try {
    Checkpoint::open(system_env(), path).verify();
    return "";
  } catch (const Failure& error) {
    return error.what();
  }
}

class Damage : public ::testing::Test {
 protected:
  Damage() { path = write(folder.path(), 100); }
  std::string write(const std::string& where, int64_t step) {
    std::string written;
    const auto groups = make_thread_groups(2);
    run_ranks(groups, [&](Group& group) {
      const std::string result = write_checkpoint(env, group, where, source.content(step));
      if (group.rank() == 0) written = result;
    });
    return written;
  }
  void expect_refused(const std::string& name, const std::string& what) {
    const std::string message = complaint(path);
    EXPECT_NE(message.find(name), std::string::npos) << what << " in " << name << ": '" << message << "'";
    EXPECT_EQ(newest_checkpoint(system_env(), folder.path(), nullptr), std::nullopt);
  }
  const TestFolder folder;
  FaultEnv env;
  TestContent source;
  std::string path;
};

TEST_F(Damage, AnyFlippedBitOfAnyFileIsFound) {
  ASSERT_EQ(complaint(path), "");
  for (const std::string& name : system_env().list(path)) {
    const std::string file = join_path(path, name), good = read(file);
    const size_t step = std::max<size_t>(1, good.size() / 300);
    for (size_t i = 0; i < good.size(); i += step) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
      overwrite(file, bad);
      expect_refused(name, fmt::format("bit {} of byte {}", i % 8, i));
    }
    overwrite(file, good);
  }
  EXPECT_EQ(complaint(path), "");
}

TEST_F(Damage, AFileThatIsCutLongerOrMissingIsRefused) {
  for (const std::string& name : system_env().list(path)) {
    const std::string file = join_path(path, name), good = read(file);
    for (size_t keep = 0; keep < good.size(); keep += std::max<size_t>(1, good.size() / 50)) {
      overwrite(file, good.substr(0, keep));
      expect_refused(name, fmt::format("cut to {} bytes", keep));
    }
    overwrite(file, good + "x");
    expect_refused(name, "one more byte");
    fs::remove(file);
    expect_refused(name, "missing");
    overwrite(file, good);
  }
  EXPECT_EQ(complaint(path), "");
}

TEST_F(Damage, AFileOfAnotherStepIsRefused) {
  source.tensors[0].tensor.data<float>()[0] = 42.0f;
  const TestFolder other;
  const std::string other_path = write(other.path(), 200);
  for (const std::string name : {"tensors-00000.safetensors", "tensors-00001.safetensors"}) {
    const std::string file = join_path(path, name), good = read(file);
    overwrite(file, read(join_path(other_path, name)));
    expect_refused(name, "of another step");
    overwrite(file, good);
  }
  fs::rename(path + "/tensors-00000.safetensors", path + "/x");
  fs::rename(path + "/tensors-00001.safetensors", path + "/tensors-00000.safetensors");
  fs::rename(path + "/x", path + "/tensors-00001.safetensors");
  expect_refused("tensors-0000", "swapped");
}

TEST_F(Damage, NewestSkipsWhatDoesNotVerifyAndRotationKeepsWhatDoes) {
  const std::string newer = write(folder.path(), 200);
  write(folder.path(), 50);
  overwrite(newer + "/tokenizer.json", "{}");
  std::vector<std::string> skipped;
  EXPECT_EQ(newest_checkpoint(system_env(), folder.path(), &skipped), path);
  ASSERT_EQ(skipped.size(), 1u);
  EXPECT_NE(skipped[0].find("tokenizer.json"), std::string::npos) << skipped[0];
  rotate_checkpoints(system_env(), folder.path(), 1);
  EXPECT_EQ(system_env().list(folder.path()), (std::vector<std::string>{"step_00000100", "step_00000200"}));
}

std::string hash_of(const std::string& bytes) {
  Hash128 hash;
  hash.update(bytes);
  return hash.hex();
}

// A layout that our writer does not make yet: one tensor in four slices of two files.
TEST(Slices, AnyCutIsReadAsOneTensor) {
  const TestFolder folder;
  std::vector<float> whole(6 * 5);
  for (size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<float>(i);
  Manifest manifest{.step = 7, .state = "{}", .tensors = {{"t", Dtype::f32, {6, 5}, {}}}, .files = {}};
  int next = 0;
  for (const int64_t row : {0, 4}) {
    const int64_t rows = row == 0 ? 4 : 2;
    const std::string name = fmt::format("part-{}.safetensors", next++);
    SafetensorsWriter writer(system_env(), folder.file(name),
                             {{"left", Dtype::f32, {rows, 2}}, {"right", Dtype::f32, {rows, 3}}}, {});
    for (const StoredTensor& stored : writer.tensors()) {
      const int64_t column = stored.name == "left" ? 0 : 2;
      std::string bytes;
      for (int64_t r = 0; r < rows; ++r)
        bytes.append(reinterpret_cast<const char*>(&whole[static_cast<size_t>((row + r) * 5 + column)]),
                     static_cast<size_t>(stored.shape[1]) * sizeof(float));
      writer.append(bytes.data(), bytes.size());
      manifest.tensors[0].slices.push_back(
          {name, stored.name, {{row, column}, stored.shape}, hash_of(bytes)});
    }
    writer.finish();
    manifest.files.push_back({name, writer.size_bytes(), writer.header_hash(), true});
  }
  overwrite(folder.file("manifest.json"), print_manifest(manifest));
  const Checkpoint checkpoint = Checkpoint::open(system_env(), folder.path());
  checkpoint.verify();
  std::vector<float> values(whole.size());
  checkpoint.read("t", {6, 5}, values.data());
  EXPECT_EQ(values, whole);

  // The digest knows no layout: the same tensor in one piece has the same.
  const TestFolder other;
  TestContent source;
  const auto group = make_single_group();
  Tensor tensor = empty(source.engine.arena, {6, 5}, Dtype::f32, Category::parameters);
  copy_from_host(tensor, whole.data(), tensor.size_bytes());
  const std::string path =
      write_checkpoint(system_env(), *group, other.path(),
                       {.step = 7, .state = "{}", .tensors = {{"t", tensor}}, .files = {}});
  EXPECT_EQ(Checkpoint::open(system_env(), path).digest(), checkpoint.digest());

  for (const auto& [offset, extent] :
       {std::pair<Shape, Shape>{{0, 0}, {4, 3}}, {{3, 0}, {4, 2}}, {{0, 1}, {4, 2}}}) {
    Manifest wrong = manifest;
    wrong.tensors[0].slices[0].box = {offset, extent};
    EXPECT_THROW(parse_manifest(print_manifest(wrong), "m"), Error) << str(offset) << str(extent);
  }
}

TEST(Manifest, RefusesWhatIsNotOne) {
  const Manifest good{
      .step = 1,
      .state = R"({"step":1})",
      .tensors = {{"t", Dtype::f32, {2}, {{"a.safetensors", "t", {{0}, {2}}, std::string(32, '0')}}}},
      .files = {{"a.safetensors", 100, std::string(32, '0'), true}}};
  const std::string text = print_manifest(good);
  EXPECT_EQ(print_manifest(parse_manifest(text, "m")), text);
  const size_t line = text.find('\n') + 1;
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string rest = text.substr(line);
    const size_t at = rest.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    rest.replace(at, from.size(), to);
    return seal_manifest(rest);
  };
  const std::pair<const char*, const char*> wrong[] = {
      {"athanor checkpoint", "athanor"},
      {"\"step\":1,", "\"step\":-1,"},
      {"\"step\":1,", "\"step\":1.5,"},
      {"\"step\":1,", "\"step\":1,\"step\":1,"},
      {"{\"step\":1}", "[]"},
      {"\"dtype\":\"f32\"", "\"dtype\":\"f33\""},
      {"\"shape\":[2]", "\"shape\":[3]"},
      {"\"shape\":[2]", "\"shape\":[4611686018427387904,4]"},
      {"\"shape\":[2]", "\"shape\":[1,1,1,1,1,1,2]"},
      {"\"slices\":[{", "\"slices\":[],\"x\":[{"},
      {"a.safetensors\",\"entry", "b.safetensors\",\"entry"},
      {"\"name\":\"a.safetensors\"", "\"name\":\"../a\""},
      {"00000000000000000000000000000000", "0000000000000000000000000000000X"},
      {"\"size_bytes\":100", "\"size_bytes\":-1"},
      {"]}\n", "]"},
  };
  for (const auto& [from, to] : wrong) EXPECT_THROW(parse_manifest(with(from, to), "m"), Error) << to;
  EXPECT_NO_THROW(parse_manifest(with("\"step\":1,", "\"step\":2,"), "m"));
  EXPECT_NO_THROW(parse_manifest(with("\"version\":3", "\"version\":2"), "m"));  // of before decisions
  for (const auto& [version, whose] : {std::pair("1", "an earlier"), {"4", "a later"}}) try {
      parse_manifest(with("\"version\":3", fmt::format("\"version\":{}", version)), "m");
      ADD_FAILURE() << version;
    } catch (const FormatError& error) {
      EXPECT_EQ(error.what(), fmt::format("'m': format {}, expected 3: {} version wrote it", version, whose));
      EXPECT_NE(error.hint(), "");
    }
}

// One that a program of before wrote is no damaged one: no other stands in for it, and its files stay.
TEST_F(Damage, ACheckpointOfAnEarlierFormatIsRefusedByName) {
  const std::string manifest = path + "/manifest.json", text = read(manifest);
  write(folder.path(), 50);  // would do, if the newest were passed over
  std::string rest = text.substr(text.find('\n') + 1);
  rest.replace(rest.find("\"version\":3"), 11, "\"version\":1");
  overwrite(manifest, seal_manifest(rest));
  const std::string of_before = read(manifest);
  EXPECT_EQ(complaint(path),
            fmt::format("'{}': format 1, expected 3: an earlier version wrote it", manifest));
  std::vector<std::string> skipped;
  EXPECT_THROW(newest_checkpoint(system_env(), folder.path(), &skipped), FormatError);
  EXPECT_TRUE(skipped.empty());
  EXPECT_EQ(read(manifest), of_before);
  overwrite(manifest, text);
  EXPECT_EQ(newest_checkpoint(system_env(), folder.path(), &skipped), path);
}

}  // namespace
}  // namespace athanor::tests::damage_test
