#include "athanor/store/safetensors.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "athanor/base/check.h"
#include "athanor/store/safetensors_index.h"

namespace athanor::tests::safetensors_test {
namespace {

class Safetensors : public ::testing::Test {
 protected:
  Safetensors() {
    std::string name = (std::filesystem::temp_directory_path() / "athanor_store_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw Error("no temporary folder");
    folder = name;
  }
  ~Safetensors() override { std::filesystem::remove_all(folder); }

  std::string file(const std::string& name) const { return folder + "/" + name; }
  // Header and data as they come, the length in front.
  std::string raw(const std::string& header, const std::string& data, uint64_t length) const {
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    std::ofstream(file("x"), std::ios::binary) << bytes << header << data;
    return file("x");
  }
  std::string raw(const std::string& header, const std::string& data) const {
    return raw(header, data, header.size());
  }
  // What the reader says about it, empty where it takes it.
  std::string complaint(const std::string& path) const {
    try {
      SafetensorsFile read(system_env(), path);
      return "";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos)
          << "names the file: " << error.what();
      return error.what();
    }
  }
  std::string folder;
};

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

TEST_F(Safetensors, WritesTheFormatToTheByte) {
  SafetensorsWriter writer(system_env(), file("a"),
                           {{"b", Dtype::bf16, {2}},
                            {"é\"", Dtype::f32, {}},
                            {"a", Dtype::f32, {1, 2}},
                            {"z", Dtype::i64, {1}},
                            {"empty", Dtype::u8, {0, 3}}},
                           {{"format", "pt"}});
  ASSERT_EQ(writer.tensors().size(), 5u);
  EXPECT_EQ(writer.tensors()[0].name, "z");  // the widest first, then by name
  EXPECT_EQ(writer.tensors()[1].name, "a");
  EXPECT_EQ(writer.tensors()[2].name, "é\"");
  writer.append(bytes_of<int64_t>({-5}).data(), 8);
  writer.append(bytes_of<float>({1.5f, -0.0f}).data(), 8);
  writer.append(bytes_of<float>({7.0f}).data(), 4);
  EXPECT_THROW(writer.append("12345", 5), Error);
  EXPECT_THROW(writer.finish(), Error);
  writer.append("\x80\x3f\x00\xc0", 4);
  writer.finish();
  const std::string text = system_env().read_text(file("a"));
  uint64_t length = 0;
  std::memcpy(&length, text.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  EXPECT_EQ(text.size(), 8 + length + 24);
  const std::string expected =
      R"({"__metadata__":{"format":"pt"},"z":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]},)"
      R"("é\"":{"dtype":"F32","shape":[],"data_offsets":[16,20]},)"
      R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[20,24]},)"
      R"("empty":{"dtype":"U8","shape":[0,3],"data_offsets":[24,24]}})";
  EXPECT_EQ(text.substr(8, expected.size()), expected);
  EXPECT_EQ(text.substr(8 + expected.size(), length - expected.size()),
            std::string(length - expected.size(), ' '));

  const SafetensorsFile read(system_env(), file("a"));
  EXPECT_EQ(read.metadata().at("format"), "pt");
  EXPECT_EQ(read.header_hash(), writer.header_hash());
  EXPECT_EQ(read.size_bytes(), writer.size_bytes());
  float values[2];
  read.read_f32(read.at("a"), values);
  EXPECT_EQ(values[0], 1.5f);
  EXPECT_TRUE(std::signbit(values[1]));
  read.read_f32(read.at("b"), values);
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[1], -2.0f);
  read.read_f32(read.at("b"), 1, 1, values);
  EXPECT_EQ(values[0], -2.0f);
  read.read_f32(read.at("empty").dtype == Dtype::u8 ? read.at("a") : read.at("b"), 0, 0, values);
  EXPECT_THROW(read.read_f32(read.at("z"), values), Error);  // no floating-point type
  EXPECT_THROW(read.read_f32(read.at("a"), 1, 2, values), Error);
  EXPECT_THROW(read.read_f32(read.at("a"), -1, 1, values), Error);
  EXPECT_THROW(read.at("nothing"), Error);
  int64_t number = 0;
  read.read(read.at("z"), 0, &number, 8);
  EXPECT_EQ(number, -5);
}

TEST_F(Safetensors, RefusesTensorsThatCannotBeWritten) {
  using Entries = std::vector<SafetensorsWriter::Entry>;
  for (const Entries& entries :
       {Entries{{"a", Dtype::f32, {1}}, {"a", Dtype::f32, {1}}}, Entries{{"", Dtype::f32, {1}}},
        Entries{{"__metadata__", Dtype::f32, {1}}}, Entries{{"\xff", Dtype::f32, {1}}},
        Entries{{std::string(513, 'n'), Dtype::f32, {1}}}})
    EXPECT_THROW(SafetensorsWriter(system_env(), file("a"), entries, {}), Error);
  SafetensorsWriter writer(system_env(), file("a"), {}, {});
  writer.finish();
  EXPECT_EQ(complaint(file("a")), "");
}

TEST_F(Safetensors, ConvertsEveryHalfExactly) {
  std::string header = R"({"h":{"dtype":"F16","shape":[65536],"data_offsets":[0,131072]}})";
  std::vector<uint16_t> bits(65536);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  const SafetensorsFile read(system_env(), raw(header, bytes_of(bits)));
  std::vector<float> values(65536);
  read.read_f32(read.at("h"), values.data());
  for (size_t i = 0; i < bits.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(to_float(F16{bits[i]}))) << i;
  }
  std::vector<uint16_t> back(65536);
  convert_from_f32(Dtype::f16, values.data(), 65536, back.data());
  for (size_t i = 0; i < bits.size(); ++i)
    if (!std::isnan(values[i])) {
      EXPECT_EQ(back[i], bits[i]);
    }
}

TEST_F(Safetensors, AcceptsWhatTheFormatAllows) {
  const std::string eight(8, 'x');
  EXPECT_EQ(complaint(raw("{}", "")), "");
  EXPECT_EQ(complaint(raw("{}   ", "")), "");
  EXPECT_EQ(complaint(raw(R"({"a":{"shape":[2],"data_offsets":[0,8],"dtype":"F32"}})", eight)), "");
  EXPECT_EQ(complaint(raw(R"({"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},
                             "b":{"dtype":"F64","shape":[0],"data_offsets":[0,0]},
                             "c":{"dtype":"F64","shape":[0],"data_offsets":[8,8]}})",
                          eight)),
            "");
  // Types we do not compute with are listed, so that a mask in a file does no harm.
  const SafetensorsFile read(system_env(),
                             raw(R"({"m":{"dtype":"BOOL","shape":[8],"data_offsets":[0,8]}})", eight));
  EXPECT_FALSE(read.at("m").dtype.has_value());
  float values[8];
  EXPECT_THROW(read.read_f32(read.at("m"), values), Error);
}

TEST_F(Safetensors, RefusesWhatItForbids) {
  const std::string eight(8, 'x');
  const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"weight":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
           "}}";
  };
  ASSERT_EQ(complaint(raw(entry("F32", "[2]", "[0,8]"), eight)), "");
  struct Case {
    std::string header, expected;
  };
  const std::vector<Case> cases = {
      {entry("F32", "[3]", "[0,8]"), "weight"},
      {entry("F32", "[2]", "[0,4]"), "weight"},
      {entry("F32", "[1]", "[0,4]"), "data"},
      {entry("F32", "[1]", "[4,8]"), "hole"},
      {entry("F32", "[2]", "[8,0]"), "weight"},
      {entry("F32", "[2]", "[0,9]"), "weight"},
      {entry("F32", "[2]", "[0,8,8]"), "weight"},
      {entry("F32", "[2]", "[0]"), "weight"},
      {entry("F32", "[-2]", "[0,8]"), "negative"},
      {entry("F32", "[2.0]", "[0,8]"), "integer"},
      {entry("F32", "[[2]]", "[0,8]"), "weight"},
      {entry("F32", "\"2\"", "[0,8]"), "weight"},
      {entry("F32", "[18446744073709551615]", "[0,8]"), "too large"},
      {entry("F32", "[4294967296,4294967296]", "[0,8]"), "too large"},
      {entry("F32", "[4294967296,4294967296,0]", "[0,8]"), "too large"},
      {entry("F32", "[1,1,1,1,1,1,2]", "[0,8]"), "dimensions"},
      {entry("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), "dimensions"},
      {entry("F31", "[2]", "[0,8]"), "F31"},
      {entry("F4", "[1]", "[0,0]"), "bits"},
      {R"({"weight":{"dtype":"F32","shape":[2]}})", "data_offsets"},
      {R"({"weight":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "twice"},
      {R"({"weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1}})", "more"},
      {R"({"weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"weight":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}})",
       "twice"},
      {R"({"weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       "overlap"},
      {R"({"weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{"a":1}})", "number"},
      {R"({"weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{"a":"b","a":"c"}})",
       "twice"},
      {R"({"weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{},"__metadata__":{}})",
       "twice"},
      {R"({"weight":null})", "null"},
      {R"({"weight":[]})", "array"},
      {R"([])", "'{'"},
      {R"( {"weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "'{'"},
      {R"({"weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})" + std::string("x"), "JSON"},
      {R"({"weight":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})", "JSON"},
      {"{\"\xff\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "JSON"},
      {R"({")" + std::string(513, 'n') + R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "name"},
      {"", "'{'"},
      {"{" + std::string(100000, '['), "JSON"},
  };
  for (const Case& each : cases) {
    const std::string message = complaint(raw(each.header, eight));
    EXPECT_NE(message.find(each.expected), std::string::npos)
        << each.header.substr(0, 200) << "\n -> " << message;
  }
  EXPECT_NE(complaint(raw("{}", "x")), "");
  for (const uint64_t length :
       {uint64_t{3}, uint64_t{100'000'001}, UINT64_MAX, UINT64_MAX - 8, uint64_t{1} << 63})
    EXPECT_NE(complaint(raw("{}", "", length)), "") << length;
  std::ofstream(file("short"), std::ios::binary) << "1234567";
  EXPECT_NE(complaint(file("short")), "");
  EXPECT_THROW(SafetensorsFile(system_env(), file("none")), IoError);
}

TEST_F(Safetensors, AFolderIsOneFileOrShardsUnderAnIndex) {
  const auto write = [&](const std::string& name, const std::vector<std::string>& tensors) {
    std::vector<SafetensorsWriter::Entry> entries;
    entries.reserve(tensors.size());
    for (const std::string& tensor : tensors) entries.push_back({tensor, Dtype::f32, {1}});
    SafetensorsWriter writer(system_env(), file(name), entries, {});
    for (const StoredTensor& tensor : writer.tensors()) {
      const auto value = static_cast<float>(tensor.name.back());
      writer.append(&value, sizeof(value));
    }
    writer.finish();
  };
  const auto index = [&](const std::string& text) {
    std::ofstream(file("model.safetensors.index.json"), std::ios::trunc) << text;
  };
  EXPECT_THROW(SafetensorsFolder(system_env(), folder), Error);
  const std::string first = safetensors_shard_name(0, 2), second = safetensors_shard_name(1, 2);
  EXPECT_EQ(first, "model-00001-of-00002.safetensors");
  write(first, {"a", "b"});
  write(second, {"c"});
  index(make_safetensors_index({{"a", first}, {"b", first}, {"c", second}}, 12));
  {
    const SafetensorsFolder read(system_env(), folder);
    EXPECT_EQ(read.tensors().size(), 3u);
    float value = 0.0f;
    const auto place = read.find("c");
    ASSERT_TRUE(place.has_value());
    place->file->read_f32(*place->tensor, &value);
    EXPECT_EQ(value, static_cast<float>('c'));
    EXPECT_FALSE(read.find("d").has_value());
  }
  for (const std::string& bad :
       {make_safetensors_index({{"a", first}, {"b", first}, {"c", first}}, 12),
        make_safetensors_index({{"a", first}, {"b", first}, {"c", second}, {"d", second}}, 12),
        make_safetensors_index({{"a", "../" + first}}, 12),
        make_safetensors_index({{"a", "gone.safetensors"}}, 12), std::string(R"({"weight_map":{"a":1}})"),
        std::string(R"({"weight_map":[]})"), std::string("{"),
        fmt::format(R"({{"weight_map":{{"a":"{0}","a":"{0}"}}}})", first)}) {
    index(bad);
    EXPECT_THROW(SafetensorsFolder(system_env(), folder), Error) << bad;
  }
  write(second, {"b", "c"});  // b is in both
  index(make_safetensors_index({{"a", first}, {"b", first}, {"c", second}}, 12));
  EXPECT_THROW(SafetensorsFolder(system_env(), folder), Error);
  write("model.safetensors", {"only"});  // one file wins over an index
  EXPECT_EQ(SafetensorsFolder(system_env(), folder).tensors().size(), 1u);
}

}  // namespace
}  // namespace athanor::tests::safetensors_test
