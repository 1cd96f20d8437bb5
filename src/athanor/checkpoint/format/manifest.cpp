#include "athanor/checkpoint/format/manifest.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "athanor/base/check.h"
#include "athanor/base/format_version.h"
#include "athanor/base/hash.h"
#include "athanor/store/json.h"

namespace athanor::checkpoint::format {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxSlices = 4096, kMaxNameBytes = 512, kHashDigits = 32;
constexpr std::string_view kSealFront = "{\"checksum\":\"", kSealBack = "\",\n";

// A value of the manifest that knows its path, for error messages.
struct Node {
  const Json& value;
  const std::string& file;
  std::string where;

  [[noreturn]] void refuse(const std::string& message) const { fail("'{}': {}: {}", file, where, message); }
  Node at(const char* key) const {
    if (!value.is_object() || !value.contains(key)) refuse(fmt::format("'{}' is missing", key));
    return {value[key], file, where + "." + key};
  }
  std::string text() const {
    if (!value.is_string()) refuse(fmt::format("got {}, expected a string", value.type_name()));
    return value.get<std::string>();
  }
  int64_t natural() const {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > INT64_MAX)
      refuse("expected an integer from zero up");
    return value.get<int64_t>();
  }
  std::string hash() const {
    std::string digits = text();
    if (digits.size() != kHashDigits || digits.find_first_not_of("0123456789abcdef") != std::string::npos)
      refuse("expected a checksum of 32 hexadecimal digits");
    return digits;
  }
  Shape shape() const {
    if (!value.is_array() || value.size() > Shape::kMaxDims)
      refuse(fmt::format("expected at most {} lengths", Shape::kMaxDims));
    Shape shape;
    for (const Json& length : value) shape.push_back(Node{length, file, where}.natural());
    return shape;
  }
  const Json& array() const {
    if (!value.is_array()) refuse(fmt::format("got {}, expected an array", value.type_name()));
    return value;
  }
};

Json to_json(const Shape& shape) {
  Json json = Json::array();
  for (int i = 0; i < shape.dims(); ++i) json.push_back(shape[i]);
  return json;
}

// The size in bytes of a tensor of this shape; none on overflow.
bool fits_memory(const Shape& shape, size_t element_bytes) {
  auto product = static_cast<int64_t>(element_bytes);
  for (int i = 0; i < shape.dims(); ++i)
    if (__builtin_mul_overflow(product, shape[i], &product)) return false;
  return true;
}

ManifestTensor parse_tensor(const Node& outer) {
  ManifestTensor tensor;
  tensor.name = outer.at("name").text();
  const Node node{outer.value, outer.file, "tensor '" + tensor.name.substr(0, 100) + "'"};
  if (tensor.name.empty() || tensor.name.size() > kMaxNameBytes)
    node.refuse(fmt::format("got a name of {} bytes, expected 1 to {}", tensor.name.size(), kMaxNameBytes));
  try {
    tensor.dtype = parse_dtype(node.at("dtype").text());
  } catch (const Error& error) {
    node.refuse(error.what());
  }
  tensor.shape = node.at("shape").shape();
  if (!fits_memory(tensor.shape, size_of(tensor.dtype))) node.refuse("its shape is too large");
  const Node slices = node.at("slices");
  if (slices.array().empty() || slices.value.size() > kMaxSlices)
    slices.refuse(fmt::format("got {} slices, expected 1 to {}", slices.value.size(), kMaxSlices));
  for (const Json& item : slices.value) {
    const Node slice{item, outer.file, slices.where};
    tensor.slices.push_back({.file = slice.at("file").text(),
                             .entry = slice.at("entry").text(),
                             .box = {slice.at("offset").shape(), slice.at("extent").shape()},
                             .hash = slice.at("xxh128").hash()});
  }
  if (const std::string fault = cover_fault(tensor); !fault.empty()) node.refuse(fault);
  return tensor;
}

ManifestFile parse_file(const Node& node) {
  ManifestFile file;
  file.name = node.at("name").text();
  if (!is_plain_file_name(file.name))
    node.refuse("got the name '" + file.name + "', expected a plain file name");
  file.size_bytes = static_cast<uint64_t>(node.at("size_bytes").natural());
  file.is_tensors = node.value.contains("header_xxh128");
  file.hash = node.at(file.is_tensors ? "header_xxh128" : "xxh128").hash();
  return file;
}

std::string hash_of(std::string_view text) {
  Hash128 hash;
  hash.update(text);
  return hash.hex();
}

std::string_view check_seal(std::string_view text, const std::string& file) {
  const size_t front = kSealFront.size(), length = front + kHashDigits + kSealBack.size();
  check(text.size() > length && text.substr(0, front) == kSealFront &&
            text.substr(front + kHashDigits, kSealBack.size()) == kSealBack,
        "'{}': does not begin like a manifest; it is cut off, damaged or none", file);
  const std::string_view rest = text.substr(length);
  const std::string found = hash_of(rest);
  check(found == text.substr(front, kHashDigits), "'{}': got checksum {}, expected {}; the file is damaged",
        file, found, text.substr(front, kHashDigits));
  return rest;
}

}  // namespace

bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name.front() != '.' && name != kManifestName &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

std::string cover_fault(const ManifestTensor& tensor) {
  const int64_t whole = tensor.shape.numel();
  int64_t covered = 0;
  for (const ManifestSlice& slice : tensor.slices) {
    if (!is_inside(slice.box, tensor.shape))
      return fmt::format("slice at {} of {} lies outside of {}", slice.box.offset, slice.box.extent,
                         tensor.shape);
    covered += slice.box.extent.numel();
    if (covered > whole) return "its slices overlap";
  }
  if (covered != whole)
    return fmt::format("its slices hold {} elements, expected the {} of {}", covered, whole, tensor.shape);
  for (size_t a = 0; a < tensor.slices.size(); ++a)
    for (size_t b = 0; b < a; ++b)
      if (overlap(tensor.slices[a].box, tensor.slices[b].box)) return "its slices overlap";
  return "";
}

std::string seal_manifest(std::string_view rest) {
  std::string text(kSealFront);
  text += hash_of(rest);
  text += kSealBack;
  text += rest;
  return text;
}

std::string canonical_state(std::string_view state, const std::string& file) {
  const Json json = parse_json(state, file);
  check(json.is_object(), "'{}': state: got {}, expected an object", file, json.type_name());
  return json.dump();
}

std::string print_manifest(const Manifest& manifest) {
  std::string rest =
      fmt::format("\"format\":\"athanor checkpoint\",\n\"version\":{},\n\"step\":{},\n\"state\":{},\n",
                  kManifestVersion, manifest.step, canonical_state(manifest.state, kManifestName));
  rest += "\"tensors\":[";
  try {
    for (const ManifestTensor& tensor : manifest.tensors) {
      rest += &tensor == manifest.tensors.data() ? "\n" : ",\n";
      nlohmann::ordered_json json = {
          {"name", tensor.name}, {"dtype", name_of(tensor.dtype)}, {"shape", to_json(tensor.shape)}};
      for (const ManifestSlice& slice : tensor.slices)
        json["slices"].push_back(nlohmann::ordered_json{{"file", slice.file},
                                                        {"entry", slice.entry},
                                                        {"offset", to_json(slice.box.offset)},
                                                        {"extent", to_json(slice.box.extent)},
                                                        {"xxh128", slice.hash}});
      rest += json.dump();
    }
    rest += "],\n\"files\":[";
    for (const ManifestFile& file : manifest.files) {
      rest += &file == manifest.files.data() ? "\n" : ",\n";
      rest += nlohmann::ordered_json{{"name", file.name},
                                     {"size_bytes", file.size_bytes},
                                     {file.is_tensors ? "header_xxh128" : "xxh128", file.hash}}
                  .dump();
    }
  } catch (const Json::exception& error) {
    fail("checkpoint: a name is not UTF-8: {}", error.what());
  }
  return seal_manifest(rest + "]}\n");
}

Manifest parse_manifest(std::string_view text, const std::string& file) {
  check_seal(text, file);
  const Json json = parse_json(text, file);
  const Node root{json, file, "manifest"};
  if (root.at("format").text() != "athanor checkpoint") root.refuse("its format is not 'athanor checkpoint'");
  if (const int64_t version = root.at("version").natural(); version != kOldestManifestVersion)
    check_format(file, version, kManifestVersion,
                 "export its weights with the version that wrote it (athanor checkpoint export-hf) and start "
                 "from them "
                 "with train.init_from");
  Manifest manifest;
  manifest.step = root.at("step").natural();
  if (!root.at("state").value.is_object()) root.at("state").refuse("expected an object");
  manifest.state = root.at("state").value.dump();
  std::map<std::string, bool> is_tensors;
  for (const Json& item : root.at("files").array()) {
    manifest.files.push_back(parse_file({item, file, "files"}));
    const ManifestFile& added = manifest.files.back();
    check(is_tensors.emplace(added.name, added.is_tensors).second, "'{}': file '{}' is given twice", file,
          added.name);
  }
  std::set<std::string> names, entries;
  for (const Json& item : root.at("tensors").array()) {
    manifest.tensors.push_back(parse_tensor({item, file, "tensors"}));
    const ManifestTensor& tensor = manifest.tensors.back();
    check(names.insert(tensor.name).second, "'{}': tensor '{}' is given twice", file, tensor.name);
    for (const ManifestSlice& slice : tensor.slices) {
      const auto found = is_tensors.find(slice.file);
      check(found != is_tensors.end() && found->second, "'{}': tensor '{}': '{}' is no file of tensors here",
            file, tensor.name, slice.file);
      check(entries.insert(slice.file + "/" + slice.entry).second,
            "'{}': tensor '{}': '{}' of '{}' is used twice", file, tensor.name, slice.entry, slice.file);
    }
  }
  return manifest;
}

}  // namespace athanor::checkpoint::format
