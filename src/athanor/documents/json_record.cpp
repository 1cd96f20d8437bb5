#include "athanor/documents/json_record.h"

#include <simdjson.h>

#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "athanor/base/check.h"
#include "athanor/base/human.h"
#include "athanor/documents/json_documents.h"
#include "athanor/documents/json_fields.h"
#include "athanor/documents/json_syntax.h"
#include "athanor/documents/record_buffer.h"
#include "athanor/documents/text_key.h"

namespace athanor::documents {
namespace {

constexpr size_t kParsedAtFirst = size_t{1} << 20;
constexpr size_t kEscapeBytes = 6;  // of \uXXXX
static_assert(RecordBuffer::kPaddingBytes >= simdjson::SIMDJSON_PADDING);

std::string keys_of(const simdjson::dom::object& object) {
  constexpr int kShown = 20;
  std::string keys;
  int count = 0;
  for (const auto& field : object)
    if (++count <= kShown) keys += fmt::format("{}'{}'", keys.empty() ? "" : ", ", printable(field.key));
  if (count > kShown) keys += fmt::format(" and {} more", count - kShown);
  return keys.empty() ? "none" : keys;
}

const char* type_word(simdjson::dom::element_type type) {
  using Type = simdjson::dom::element_type;
  switch (type) {
    case Type::ARRAY:
      return "an array";
    case Type::OBJECT:
      return "an object";
    case Type::STRING:
      return "a string";
    case Type::BOOL:
      return "a boolean";
    case Type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

// A value under a key, and the way to it.
struct KeyedValue {
  simdjson::dom::element value;
  JsonFieldPath path;
  size_t times = 1;  // that the key stands in its object
};

// The value under the name, or else under the path of names.
std::optional<KeyedValue> find_value(const simdjson::dom::object& object, std::string_view key) {
  KeyedValue found;
  found.times = 0;
  size_t index = 0;
  for (const auto& field : object) {
    if (field.key == key && ++found.times == 1) {
      found.value = field.value;
      found.path = {index};
    }
    ++index;
  }
  if (found.times > 0) return found;
  for (size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.', dot + 1)) {
    index = 0;
    for (const auto& field : object) {
      simdjson::dom::object inner;
      if (field.key == key.substr(0, dot) && field.value.get(inner) == simdjson::SUCCESS)
        if (auto below = find_value(inner, key.substr(dot + 1))) {
          below->path.insert(below->path.begin(), index);
          return below;
        }
      ++index;
    }
  }
  return std::nullopt;
}

Refusal json_fault_of(std::string_view bytes, simdjson::error_code code) {
  if (code == simdjson::DEPTH_ERROR)
    return {std::string(kTooDeep),
            fmt::format("nested deeper than {} levels, expected fewer", kMaxJsonDepth)};
  const std::string_view kind = code == simdjson::UTF8_ERROR                 ? kInvalidUtf8
                                : bytes.find('\0') != std::string_view::npos ? kNulByte
                                                                             : kBrokenJson;
  const size_t column = json_fault(bytes).value_or(0);
  const size_t from = std::min(column, bytes.size());
  constexpr size_t kShownBytes = 12;
  return {std::string(kind),
          fmt::format("not JSON: at byte {}{}: {}", column + 1,
                      from < bytes.size() ? " ('" + printable(bytes.substr(from, kShownBytes)) + "')" : "",
                      simdjson::error_message(code))};
}

}  // namespace

class JsonRecord::Parser {
 public:
  Parser(const std::string& name, const RecordOptions& options)
      : name_(name), options_(options), key_(options.text_key), parser_(kMaxDocumentBytes) {
    check(parser_.allocate(kParsedAtFirst, kMaxJsonDepth) == simdjson::SUCCESS,
          "'{}': no memory to read JSON", name);
  }

  void read(char* bytes, size_t size_bytes, int64_t line) {
    place_.line = line;
    place_.id.clear();
    original_ = {bytes, size_bytes};
    simdjson::dom::element element;
    const auto code = parse(bytes, size_bytes, element);
    if (code == simdjson::STRING_ERROR && took_lone_surrogates(bytes, size_bytes)) return;
    if (code != simdjson::SUCCESS) refuse(json_fault_of({bytes, size_bytes}, code));
    take(element);
  }
  std::string_view text() const { return text_; }
  const RecordPlace& place() const { return place_; }

 private:
  [[noreturn]] void refuse(Refusal why) const { throw RecordError(name_, place_.line, std::move(why)); }
  [[noreturn]] void refuse(std::string_view kind, std::string detail) const {
    refuse({std::string(kind), std::move(detail)});
  }

  // Numbers that are too large for the parser all read 0.
  simdjson::error_code parse(char* bytes, size_t size_bytes, simdjson::dom::element& element) {
    const auto code = parser_.parse(bytes, size_bytes, false).get(element);
    if (code != simdjson::NUMBER_ERROR) return code;
    keep_original();
    blank_json_numbers(bytes, size_bytes);
    return parser_.parse(bytes, size_bytes, false).get(element);
  }

  // Before the bytes are changed.
  void keep_original() {
    if (original_.data() == copy_.data()) return;
    copy_ = original_;
    original_ = copy_;
  }

  // JSON's grammar allows lone surrogates, which stand for no character; outside of the text they are ignored. Returns
  // false if the object has another fault or no lone surrogate.
  bool took_lone_surrogates(char* bytes, size_t size_bytes) {
    const auto lone = lone_surrogates({bytes, size_bytes});
    if (lone.empty()) return false;
    const std::string first(bytes + lone.front(), kEscapeBytes);
    keep_original();
    // The object is read with two different replacements: if the text differs, it contains a lone surrogate.
    const char* const places[] = {R"(\u003f)", R"(\ufffd)"};
    std::array<std::string, 2> texts;
    for (size_t i = 0; i < texts.size(); ++i) {
      for (const size_t at : lone) {
        std::memcpy(bytes + at, places[i], kEscapeBytes);
        std::memcpy(copy_.data() + at, places[i], kEscapeBytes);
      }
      simdjson::dom::element element;
      if (parse(bytes, size_bytes, element) != simdjson::SUCCESS) return false;
      take(element);
      texts[i] = text_;
    }
    if (texts[0] != texts[1])
      refuse(kLoneSurrogate, fmt::format("'{}' holds the lone surrogate {}, which stands for no character",
                                         options_.text_key, first));
    return true;
  }

  void take(simdjson::dom::element element) {
    simdjson::dom::object object;
    if (element.get(object) != simdjson::SUCCESS)
      refuse(kNotAnObject,
             fmt::format("got a JSON value that is not an object ({}), expected {{\"{}\": \"...\"}}",
                         type_word(element.type()), options_.text_key));
    left_out_.clear();
    if (options_.whole_object) {
      text_ = original_;
    } else if (key_.is_plain()) {
      text_ = string_under(object, key_.parts().front().key);
    } else {
      built_.clear();
      for (const TextKey::Part& part : key_.parts()) {
        built_ += part.before;
        built_ += string_under(object, part.key);
      }
      built_ += key_.after();
      text_ = built_;
    }
    if (options_.refused && text_.find('\0') != std::string_view::npos)
      refuse(kNulByte, fmt::format("'{}' holds a zero byte (\\u0000)", options_.text_key));
    take_id(object);
    if (!options_.with_metadata) return;
    place_.metadata.clear();
    copy_json_fields(original_, left_out_, place_.metadata);
  }

  std::string_view string_under(const simdjson::dom::object& object, std::string_view key) {
    auto found = find_value(object, key);
    if (!found) refuse(kNoTextKey, fmt::format("no key '{}', got {}", key, keys_of(object)));
    if (found->times > 1)
      refuse(kTextKeyTwice,
             fmt::format("the key '{}' stands there {} times, expected once", key, found->times));
    std::string_view text;
    if (found->value.get(text) != simdjson::SUCCESS)
      refuse(kTextNotString, fmt::format("'{}' is not a string but {}", key, type_word(found->value.type())));
    left_out_.push_back(std::move(found->path));
    return text;
  }

  void take_id(const simdjson::dom::object& object) {
    auto found = find_value(object, options_.id_key);
    if (!found) return;
    const simdjson::dom::element& value = found->value;
    if (value.is_string())
      place_.id = value.get_string().value_unsafe();
    else if (value.is_number())
      place_.id = integer_at(found->path);
    if (place_.id.empty()) return;
    left_out_.push_back(std::move(found->path));
  }

  // As it stands there, whatever its size; "" for another number.
  std::string integer_at(const JsonFieldPath& path) const {
    const std::string_view number = json_value_at(original_, path);
    return number.find_first_not_of("-0123456789") == std::string_view::npos ? std::string(number) : "";
  }

  std::string name_;
  const RecordOptions& options_;
  TextKey key_;
  simdjson::dom::parser parser_;
  std::string_view original_;            // the record as it came
  std::string copy_;                     // where the bytes themselves had to be changed
  std::string built_;                    // the text of a template
  std::vector<JsonFieldPath> left_out_;  // of the metadata
  std::string_view text_;
  RecordPlace place_;
};

JsonRecord::JsonRecord(const std::string& name, const RecordOptions& options)
    : parser_(std::make_unique<Parser>(name, options)) {}
JsonRecord::~JsonRecord() = default;

void JsonRecord::read(char* bytes, size_t size_bytes, int64_t line) {
  parser_->read(bytes, size_bytes, line);
}
std::string_view JsonRecord::text() const {
  return parser_->text();
}
const RecordPlace& JsonRecord::place() const {
  return parser_->place();
}

}  // namespace athanor::documents
