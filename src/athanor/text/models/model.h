// A tokenizer's model turns one word of pre-tokenized text into ids: BPE, WordLevel, ... One file per model.
//
//   model->encode_word("Ġworld", ids);  // appends
//
// Thread rule: const methods from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/text/json_node.h"
#include "athanor/text/models/bpe_tables.h"
#include "athanor/text/models/vocabulary.h"

namespace athanor::text::models {

struct WordToken {
  int32_t id;
  uint32_t begin, end;  // the bytes of the word that it stands for
};

class Model {
 public:
  virtual ~Model() = default;
  virtual void encode_word(std::string_view word, std::vector<int32_t>& ids) const = 0;
  // The same with the bytes of each token. Bytes that the vocabulary lacks may belong to no token.
  virtual void trace_word(std::string_view word, std::vector<WordToken>& tokens) const = 0;
  // A word is the parts [at, part_end(word, at)), which are encoded each on its own with the same ids: a long
  // word may have parts that repeat. The whole word where it has none.
  virtual size_t part_end(std::string_view word, size_t) const { return word.size(); }
  // The bytes of a word that a token stands for wherever it stands; 0 where that depends on the word.
  virtual size_t num_bytes_of(int32_t id) const = 0;
  // What a token shows of the word: its own text in the vocabulary, or the text that it stands for.
  virtual std::string shown(int32_t id, std::string_view word_part) const;
  // What a user should know of it, a sentence each: characters that will be lost.
  virtual std::vector<std::string> warnings() const { return {}; }
  virtual const Vocabulary& vocabulary() const = 0;

  // If can_read_raw_bytes(), read_raw_bytes() makes the model take words as raw bytes instead of byte_level.h's
  // characters, which saves rewriting every word.
  virtual bool can_read_raw_bytes() const { return false; }
  virtual void read_raw_bytes() {}
  // Whether every byte has an id of its own, so that any bytes can be encoded, even if they are not UTF-8.
  virtual bool takes_any_byte() const { return false; }
};

// `tables`, where they were read, are a BPE model's, and the node lacks them.
std::unique_ptr<Model> parse_model(const JsonNode& node, std::optional<BpeTables> tables = {});
std::unique_ptr<Model> parse_bpe(const JsonNode& node, std::optional<BpeTables> tables);
std::unique_ptr<Model> parse_word_level(const JsonNode& node);
std::unique_ptr<Model> parse_word_piece(const JsonNode& node);
std::unique_ptr<Model> parse_unigram(const JsonNode& node);

// The object {"token": id, ...} at `node`.
std::vector<std::pair<std::string, int64_t>> parse_tokens(const JsonNode& node);
Vocabulary parse_vocabulary(const JsonNode& node);

}  // namespace athanor::text::models
