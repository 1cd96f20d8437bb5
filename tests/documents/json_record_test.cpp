// Text keys, ids and metadata of JSON.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "athanor/documents/json_fields.h"
#include "athanor/documents/text_key.h"
#include "documents/reading.h"

namespace athanor::tests::json_record_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class JsonRecordTest : public ReadingTest {
 protected:
  std::vector<std::string> with_key(const std::string& key, const std::string& content) {
    options_.text_key = key;
    return read(write("a.jsonl", content));
  }
};

TEST_F(JsonRecordTest, APathLeadsIntoObjects) {
  EXPECT_THAT(with_key("a.b", R"({"a":{"c":1,"b":"deep"}})"), ElementsAre("deep"));
  EXPECT_THAT(with_key("a.b", R"({"a":{"b":"deep"},"a.b":"by its name"})"), ElementsAre("by its name"));
  EXPECT_THAT(with_key("a.b.c", R"({"a":{"b":{"c":"x"}}})"
                                "\n"
                                R"({"a.b":{"c":"y"}})"
                                "\n"
                                R"({"a":{"b.c":"z"}})"),
              ElementsAre("x", "y", "z"));
  EXPECT_THAT(with_key("a.b", R"({"a":"b"})"
                              "\n"
                              R"({"a":{"b":[]}})"
                              "\n"
                              R"({"b":"x"})"),
              ElementsAre());
  EXPECT_THAT(refused_, ElementsAre("1:no text key", "2:text is not a string", "3:no text key"));
  EXPECT_THAT(with_key("a..b", R"({"a":{"":{"b":"x"}}})"), ElementsAre("x"));
  EXPECT_THAT(with_key(".", R"({"":{"":"x"}})"), ElementsAre("x"));
}

TEST_F(JsonRecordTest, ATemplateJoinsKeys) {
  EXPECT_THAT(with_key("{title}\n\n{a.body}.", R"({"title":"T","a":{"body":"B"}})"), ElementsAre("T\n\nB."));
  EXPECT_THAT(with_key("{{{t}}} {t}", R"({"t":"x"})"), ElementsAre("{x} x"));
  EXPECT_THAT(with_key("{t}{u}", R"({"t":"","u":""})"), ElementsAre());
  EXPECT_EQ(report_.empty, 1);
  EXPECT_THAT(with_key("{t} {u}", R"({"t":"x"})"
                                  "\n"
                                  R"({"t":"x","u":1})"
                                  "\n"
                                  R"({"t":"x","u":"y"})"),
              ElementsAre("x y"));
  EXPECT_THAT(refused_, ElementsAre("1:no text key", "2:text is not a string"));
  EXPECT_THAT(details_[0], AllOf(HasSubstr("no key 'u'"), HasSubstr("'t'")));
}

TEST_F(JsonRecordTest, TemplatesThatAreNotWellFormedAreRefused) {
  for (const auto& [key, why] : std::vector<std::pair<std::string, std::string>>{{"{", "without '}'"},
                                                                                 {"}", "without '{'"},
                                                                                 {"a{b", "without '}'"},
                                                                                 {"{a{b}}", "without '}'"},
                                                                                 {"{}", "between the braces"},
                                                                                 {"{{a}}", "without a key"},
                                                                                 {"{a}}", "without '{'"}}) {
    EXPECT_THAT(failure_of([&, text_key = key] { TextKey key_of(text_key); }), HasSubstr(why)) << key;
    options_.text_key = key;
    EXPECT_THROW(read(write("a.txt", "text")), ConfigError) << key;
  }
  EXPECT_TRUE(TextKey("a.b").is_plain());
  EXPECT_EQ(TextKey("{a}x{b}").parts().size(), 2u);
}

TEST_F(JsonRecordTest, MetadataKeepTheBytesOfTheOtherValues) {
  options_.with_metadata = true;
  with_key(
      "text",
      R"({"text":"a","n":1.50e+3 , "big" : 340282366920938463463374607431768211456,"l":[1, {"text":"b"} ],"id":"i"})"
      "\n"
      R"({"t\u0065xt":"b","k\"\\":"\"}]","u":"\u6c34","id":[7],"null":null,"e":{},"x":true})"
      "\n"
      R"({"text":"c"})"
      "\r\n"
      R"( { "id" : 3 , "text" : "d" } )"
      "\n"
      R"({"text":"e","lone":"\ud83d","big":1e999,"id":4})"
      "\n");
  EXPECT_THAT(
      metadata_,
      ElementsAre(R"({"n":1.50e+3,"big":340282366920938463463374607431768211456,"l":[1, {"text":"b"} ]})",
                  R"({"k\"\\":"\"}]","u":"\u6c34","id":[7],"null":null,"e":{},"x":true})", "{}", "{}",
                  R"({"lone":"\ufffd","big":1e999})"));
  EXPECT_THAT(texts_, ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_THAT(ids_, ElementsAre("i", "", "", "3", "4"));
}

TEST_F(JsonRecordTest, MetadataOfPathsAndOfSeveralLines) {
  options_.with_metadata = true;
  options_.id_key = "meta.id";
  with_key("{a.b}{c}", R"({"a":{"x":1,"b":"t","y":{"b":2}},"c":"u","meta":{"id":"k","at":0},"d":3})");
  EXPECT_THAT(texts_, ElementsAre("tu"));
  EXPECT_THAT(ids_, ElementsAre("k"));
  EXPECT_THAT(metadata_, ElementsAre(R"({"a":{"x":1,"y":{"b":2}},"meta":{"at":0},"d":3})"));
  options_.text_key = "text";
  options_.id_key = "id";
  read(write("b.json", "[\n {\n  \"text\": \"a\",\n  \"l\": [\n   1,\r\n   \"x y\"\n  ]\n }\n]\n"));
  EXPECT_THAT(metadata_, ElementsAre("{\"l\":[    1,     \"x y\"   ]}"));
  read(write("c.txt", "plain"));
  EXPECT_THAT(metadata_, ElementsAre("{}"));
}

// Whatever the objects hold, the metadata parse to the same values without the text.
TEST_F(JsonRecordTest, MetadataOfRandomObjects) {
  options_.with_metadata = true;
  uint64_t state = 1;
  const auto draw = [&](uint64_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % bound;
  };
  const std::function<nlohmann::json(int)> value = [&](int depth) -> nlohmann::json {
    switch (draw(depth > 0 ? 6 : 4)) {
      case 0:
        return draw(1000);
      case 1: {
        std::string text;
        for (uint64_t i = draw(8); i > 0; --i) text += "\"\\{}[],:\n x"[draw(12)];
        return text;
      }
      case 2:
        return nullptr;
      case 3:
        return 0.25 * static_cast<double>(draw(9));
      case 4: {
        nlohmann::json list = nlohmann::json::array();
        for (uint64_t i = draw(4); i > 0; --i) list.push_back(value(depth - 1));
        return list;
      }
      default: {
        nlohmann::json object = nlohmann::json::object();
        for (uint64_t i = draw(4); i > 0; --i) object[std::string(1 + draw(3), '"')] = value(depth - 1);
        return object;
      }
    }
  };
  std::string lines;
  std::vector<nlohmann::json> expected;
  for (int i = 0; i < 500; ++i) {
    nlohmann::json object = {{"a", value(3)}, {"z", value(3)}, {"\"", value(2)}};
    expected.push_back(object);
    object["text"] = "t\"\\";
    lines += object.dump(draw(2) == 0 ? -1 : 1) + "\n";
  }
  read(write("a.json", lines));
  ASSERT_EQ(metadata_.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(nlohmann::json::parse(metadata_[i]), expected[i]) << metadata_[i];
    EXPECT_EQ(metadata_[i].find('\n'), std::string::npos);
  }
}

TEST_F(JsonRecordTest, StringsAreWrittenAsJson) {
  std::string all;
  for (int c = 1; c < 128; ++c) all += static_cast<char>(c);
  all += "\xE6\xB0\xB4";
  for (const std::string& text : {std::string(), all, std::string("\0", 1), std::string("a\"b\\c\nd")}) {
    std::string out = "x";
    append_json_string(out, text);
    EXPECT_EQ(nlohmann::json::parse(out.substr(1)), text);
  }
}

}  // namespace
}  // namespace athanor::tests::json_record_test
