#include "athanor/text/formats/sentencepiece.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "athanor/base/check.h"
#include "athanor/text/base64.h"
#include "athanor/text/tokenizer_writer.h"
#include "athanor/text/unicode.h"

namespace athanor::text::formats {
namespace {

constexpr const char* kMark = "\u2581";  // what a space is written as

enum PieceType { kNormal = 1, kUnknown = 2, kControl = 3, kOwn = 4, kUnused = 5, kByte = 6 };
enum ModelType { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };

struct SentencePiece {
  std::string text;
  float score = 0;
  int64_t type = kNormal;
};

struct SentencePieceModel {
  std::vector<SentencePiece> pieces;
  int64_t type = kUnigram, unk_id = 0, bos_id = 1, eos_id = 2;
  bool byte_fallback = false, space_as_suffix = false;
  bool dummy_prefix = true, removes_spaces = true, escapes_spaces = true;
  std::string charsmap;
};

// One field of a message of a protocol buffer.
struct Field {
  uint64_t number = 0;
  uint64_t value = 0;      // of a varint, or the bits of a fixed one
  std::string_view bytes;  // of a nested message or a string
};

// Calls `take` with each field; false if the bytes are no message.
bool read_message(std::string_view bytes, const std::function<void(const Field&)>& take) {
  const auto varint = [&bytes](uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes.front());
      bytes.remove_prefix(1);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  };
  while (!bytes.empty()) {
    Field field;
    uint64_t key = 0;
    if (!varint(key)) return false;
    field.number = key >> 3;
    uint64_t size = 0;
    switch (key & 7) {
      case 0:
        if (!varint(field.value)) return false;
        break;
      case 1:
      case 5:
        size = (key & 7) == 1 ? 8 : 4;
        if (bytes.size() < size) return false;
        std::memcpy(&field.value, bytes.data(), size);
        break;
      case 2:
        if (!varint(size) || size > bytes.size()) return false;
        field.bytes = bytes.substr(0, size);
        break;
      default:
        return false;
    }
    bytes.remove_prefix(size);
    take(field);
  }
  return true;
}

// The numbers of the fields are those of sentencepiece_model.proto.
std::optional<SentencePieceModel> read_model(std::string_view bytes) {
  SentencePieceModel model;
  bool whole = true;
  const auto read_piece = [&](const Field& field) {
    SentencePiece& piece = model.pieces.back();
    if (field.number == 1) piece.text = field.bytes;
    if (field.number == 2) piece.score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
    if (field.number == 3) piece.type = static_cast<int64_t>(field.value);
  };
  const auto read_training = [&](const Field& field) {
    const auto value = static_cast<int64_t>(field.value);
    if (field.number == 3) model.type = value;
    if (field.number == 24) model.space_as_suffix = value != 0;
    if (field.number == 35) model.byte_fallback = value != 0;
    if (field.number == 40) model.unk_id = value;
    if (field.number == 41) model.bos_id = value;
    if (field.number == 42) model.eos_id = value;
  };
  const auto read_normalization = [&](const Field& field) {
    if (field.number == 2) model.charsmap = field.bytes;
    if (field.number == 3) model.dummy_prefix = field.value != 0;
    if (field.number == 4) model.removes_spaces = field.value != 0;
    if (field.number == 5) model.escapes_spaces = field.value != 0;
  };
  whole = read_message(bytes,
                       [&](const Field& field) {
                         if (field.number == 1) {
                           model.pieces.emplace_back();
                           whole &= read_message(field.bytes, read_piece);
                         }
                         if (field.number == 2) whole &= read_message(field.bytes, read_training);
                         if (field.number == 3) whole &= read_message(field.bytes, read_normalization);
                       }) &&
          whole;
  if (!whole || model.pieces.empty()) return std::nullopt;
  return model;
}

OrderedJson replace_json(const OrderedJson& pattern, const std::string& content) {
  return {{"type", "Replace"}, {"pattern", pattern}, {"content", content}};
}

OrderedJson normalizer_json(const SentencePieceModel& model) {
  OrderedJson steps = OrderedJson::array();
  if (!model.charsmap.empty())
    steps.push_back({{"type", "Precompiled"},
                     {"precompiled_charsmap", encode_base64(model.charsmap)},
                     {"like_sentencepiece", true}});
  if (model.removes_spaces) {
    steps.push_back(replace_json({{"Regex", "^ +| +$"}}, ""));
    steps.push_back(replace_json({{"Regex", " {2,}"}}, " "));
  }
  const std::string space = model.escapes_spaces ? kMark : " ";
  if (model.dummy_prefix) steps.push_back({{"type", "Prepend"}, {"prepend", space}});
  if (model.escapes_spaces) steps.push_back(replace_json({{"String", " "}}, kMark));
  if (steps.empty()) return nullptr;
  return {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
}

OrderedJson decoder_json(const SentencePieceModel& model) {
  OrderedJson steps = OrderedJson::array({replace_json({{"String", kMark}}, " ")});
  if (model.byte_fallback) steps.push_back({{"type", "ByteFallback"}});
  steps.push_back({{"type", "Fuse"}});
  if (model.dummy_prefix) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", std::move(steps)}};
}

TokenIds ids_of(const SentencePieceModel& model) {
  TokenIds ids;
  for (const SentencePiece& piece : model.pieces) ids.emplace_back(piece.text, ids.size());
  return ids;
}

OrderedJson unigram_json(const SentencePieceModel& model) {
  OrderedJson vocab = OrderedJson::array(), hidden = OrderedJson::array(), own = OrderedJson::array();
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    vocab.push_back(OrderedJson::array({piece.text, piece.score}));
    if (piece.type == kControl || piece.type == kByte || piece.type == kUnused) hidden.push_back(id);
    if (piece.type == kOwn) own.push_back(id);
  }
  return {{"type", "Unigram"},
          {"unk_id", model.unk_id},
          {"byte_fallback", model.byte_fallback},
          {"like_sentencepiece", true},
          {"not_in_text", std::move(hidden)},
          {"own_pieces", std::move(own)},
          {"vocab", std::move(vocab)}};
}

// Any two neighbours whose text together is a piece are merged, the piece with the highest score first.
OrderedJson merged_json(const SentencePieceModel& model) {
  std::unordered_map<std::string_view, size_t> ids;
  for (size_t id = 0; id < model.pieces.size(); ++id)
    if (model.pieces[id].type == kNormal) ids.emplace(model.pieces[id].text, id);
  std::vector<size_t> order;
  for (const auto& [text, id] : ids) order.push_back(id);
  std::ranges::sort(order, [&](size_t a, size_t b) {
    return std::pair(-model.pieces[a].score, a) < std::pair(-model.pieces[b].score, b);
  });
  std::vector<std::pair<std::string, std::string>> merges;
  for (const size_t id : order) {
    const std::string_view text = model.pieces[id].text;
    for (size_t cut = decode_utf8(text, 0).size; cut < text.size(); cut += decode_utf8(text, cut).size)
      if (ids.contains(text.substr(0, cut)) && ids.contains(text.substr(cut)))
        merges.emplace_back(text.substr(0, cut), text.substr(cut));
  }
  OrderedJson json = bpe_json(ids_of(model), merges);
  json["unk_token"] = model.pieces[static_cast<size_t>(model.unk_id)].text;
  json["fuse_unk"] = true;
  json["byte_fallback"] = model.byte_fallback;
  return json;
}

OrderedJson model_json(const SentencePieceModel& model, OrderedJson& file) {
  if (model.type == kUnigram) return unigram_json(model);
  if (model.type == kWord) {
    file["pre_tokenizer"] = {{"type", "Split"},
                             {"pattern", {{"String", kMark}}},
                             {"behavior", "MergedWithNext"},
                             {"invert", false}};
    return {{"type", "WordLevel"},
            {"vocab", vocab_json(ids_of(model))},
            {"unk_token", model.pieces[static_cast<size_t>(model.unk_id)].text}};
  }
  OrderedJson json = merged_json(model);
  if (model.type == kChar) json["merges"] = OrderedJson::array();
  return json;
}

}  // namespace

bool is_sentencepiece(std::string_view bytes) {
  // The first field is a piece, which begins with its text.
  return bytes.size() > 4 && bytes[0] == '\x0A' && bytes[2] == '\x0A' && read_model(bytes).has_value();
}

std::string sentencepiece_json(std::string_view bytes, const std::string& name) {
  const auto model = read_model(bytes);
  check(model.has_value(), "{}: not a whole SentencePiece model", name);
  check(model->type >= kUnigram && model->type <= kChar,
        "{}: model type {}, expected unigram, bpe, word or char", name, model->type);
  check(!model->space_as_suffix, "{}: white space as a suffix of words is not supported", name);
  const auto size = static_cast<int64_t>(model->pieces.size());
  check(model->unk_id >= 0 && model->unk_id < size, "{}: unk_id {}, expected 0 to {}", name, model->unk_id,
        size - 1);
  OrderedJson file = tokenizer_json({});
  for (size_t id = 0; id < model->pieces.size(); ++id) {
    const SentencePiece& piece = model->pieces[id];
    check(!piece.text.empty() && find_invalid_utf8(piece.text) == std::string_view::npos,
          "{}: piece {} is {}", name, id, piece.text.empty() ? "empty" : "not UTF-8");
    check(piece.type != kUnused || model->type == kUnigram,
          "{}: piece {} is never used, which only a unigram model may have", name, id);
    const bool is_own = piece.type == kOwn && model->type != kUnigram;
    if (piece.type != kControl && !is_own) continue;
    file["added_tokens"].push_back({{"id", id},
                                    {"content", piece.text},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", is_own},
                                    {"special", !is_own},
                                    {"in_text", is_own}});
  }
  file["normalizer"] = normalizer_json(*model);
  file["decoder"] = decoder_json(*model);
  file["model"] = model_json(*model, file);
  return to_text(file);
}

}  // namespace athanor::text::formats
