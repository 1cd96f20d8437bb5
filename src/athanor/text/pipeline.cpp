#include "athanor/text/pipeline.h"

#include <algorithm>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"
#include "athanor/text/unicode.h"

namespace athanor::text {
namespace {

bool is_inside(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80;
}

// The range with the whole of the characters that it begins and ends in. Bytes that are not UTF-8 stay themselves.
TextRange whole_characters(std::string_view text, TextRange range) {
  const auto character_at = [&](size_t at) {
    size_t begin = at;
    while (begin > 0 && at - begin < 3 && is_inside(text, begin)) --begin;
    const size_t end = begin + decode_utf8(text, begin).size;
    return end > at ? std::pair(begin, end) : std::pair(at, at);
  };
  if (is_inside(text, range.begin)) range.begin = static_cast<uint32_t>(character_at(range.begin).first);
  if (is_inside(text, range.end)) range.end = static_cast<uint32_t>(character_at(range.end).second);
  return range;
}

}  // namespace

Pipeline::Pipeline(PipelineParts parts) : parts_(std::move(parts)) {
  Model& model = *parts_.model;
  const bool maps_bytes = (parts_.pre_tokenizer && parts_.pre_tokenizer->maps_bytes()) ||
                          (parts_.normalizer && parts_.normalizer->maps_bytes());
  takes_any_byte_ = maps_bytes || model.takes_any_byte();
  if (parts_.pre_tokenizer && model.can_read_raw_bytes() && parts_.pre_tokenizer->drop_final_byte_map())
    model.read_raw_bytes();
  vocab_size_ = model.vocabulary().size();
  for (const AddedToken& token : parts_.added_tokens) {
    added_by_id_[token.id] = &token;
    added_by_content_[token.content] = token.id;
    vocab_size_ = std::max(vocab_size_, token.id + 1);
  }
  all_ = std::make_unique<Matchers>(make_matchers(true));
  ordinary_ = std::make_unique<Matchers>(make_matchers(false));
}

Pipeline::Matchers Pipeline::make_matchers(bool with_special) const {
  std::vector<AddedToken> raw, normalized;
  const auto end_id = end_of_text();
  for (const AddedToken& token : parts_.added_tokens) {
    // Some files do not call their end-of-text special; a document must not forge it all the same.
    const bool special = token.special || token.id == end_id;
    if (!token.in_text || (!with_special && special)) continue;
    auto& tokens = token.normalized ? normalized : raw;
    tokens.push_back(token);
    tokens.back().special = special;
    if (token.normalized && parts_.normalizer)
      normalized.back().content = parts_.normalizer->applied(token.content);
  }
  return {AddedTokenMatcher(std::move(raw)), AddedTokenMatcher(std::move(normalized))};
}

std::vector<int32_t> Pipeline::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  encode_with(*all_, text, {}, {ids});
  return ids;
}

std::vector<int32_t> Pipeline::encode_ordinary(std::string_view text) const {
  std::vector<int32_t> ids;
  encode_with(*ordinary_, text, {}, {ids});
  return ids;
}

std::vector<int32_t> Pipeline::encode(std::string_view text, std::span<const ByteSpan> ordinary) const {
  std::vector<int32_t> ids;
  encode_with(*all_, text, ordinary, {ids});
  return ids;
}

Encoding Pipeline::encode_with_offsets(std::string_view text, EncodeOptions options) const {
  Encoding encoding;
  const bool needs_tokens = options.tokens || (options.trims && parts_.post_processor.trims());
  encode_with(options.ordinary ? *ordinary_ : *all_, text, options.ordinary_parts,
              {encoding.ids, &encoding.ranges, needs_tokens ? &encoding.tokens : nullptr});
  for (TextRange& range : encoding.ranges) range = whole_characters(text, range);
  if (options.trims) parts_.post_processor.trim(text, encoding);
  if (!options.tokens) encoding.tokens.clear();
  return encoding;
}

Encoding Pipeline::with_special_tokens(const Encoding& first, const std::optional<Encoding>& second) const {
  return parts_.post_processor.process(first, second);
}

void Pipeline::encode_with(const Matchers& matchers, std::string_view text,
                           std::span<const ByteSpan> ordinary, const Output& output) const {
  if (!takes_any_byte_) {
    const size_t bad = find_invalid_utf8(text);
    if (bad != std::string_view::npos)
      fail("{}: the text is not UTF-8: byte 0x{:02X} at offset {}", parts_.name,
           static_cast<uint8_t>(text[bad]), bad);
  }
  std::unique_ptr<WordCache> cache;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_caches_.empty()) {
      cache = std::move(idle_caches_.back());
      idle_caches_.pop_back();
    }
  }
  if (!cache) cache = std::make_unique<WordCache>();
  const Piece whole{.text = text, .at_start = true, .traced = output.ranges != nullptr};
  const auto put = [&](Segment s) {
    const Piece segment = whole.part(s.begin, s.end);
    if (s.id) return put_added(*s.id, segment, output);
    // Where a normalizer has passed over it, nothing says which byte is whose.
    const Matchers& here = touches(ordinary, s.begin, s.end) ? *ordinary_ : matchers;
    encode_segment(here, segment, *cache, output);
  };
  matchers.raw.split(text, put, ordinary);
  const std::lock_guard lock(mutex_);
  idle_caches_.push_back(std::move(cache));
}

void Pipeline::put_added(int32_t id, Piece segment, const Output& output) {
  output.ids.push_back(id);
  if (output.ranges) output.ranges->push_back(segment.range(0, segment.text.size()));
  if (output.tokens) output.tokens->emplace_back(segment.text);
}

void Pipeline::encode_segment(const Matchers& matchers, Piece segment, WordCache& cache,
                              const Output& output) const {
  const auto encode_all = [&](Piece piece) {
    matchers.normalized.split(piece.text, [&](Segment s) {
      const Piece part = piece.part(s.begin, s.end);
      if (s.id) return put_added(*s.id, part, output);
      encode_piece(part, cache, output);
    });
  };
  if (!parts_.normalizer) return encode_all(segment);
  NormalizedText normalized(segment);
  parts_.normalizer->apply(normalized);
  encode_all(normalized.piece(segment.at_start));
}

void Pipeline::encode_piece(Piece piece, WordCache& cache, const Output& output) const {
  const auto put = [&](Piece word) {
    const auto put_part = [&](Piece part) {
      if (output.ranges)
        trace_word(part, cache, output);
      else
        encode_word(part.text, cache, output.ids);
    };
    if (word.text.size() <= WordCache::kMaxBytes) return put_part(word);
    for (size_t at = 0; at < word.text.size();) {
      const size_t end = parts_.model->part_end(word.text, at);
      put_part(word.part(at, end));
      at = end;
    }
  };
  if (!parts_.pre_tokenizer) return put(piece);
  parts_.pre_tokenizer->split(piece, put);
}

// The bytes of a word's tokens follow from the tokens alone, unless the word holds unknown characters.
void Pipeline::trace_word(Piece word, WordCache& cache, const Output& output) const {
  const Model& model = *parts_.model;
  const auto put = [&](const WordToken& token) {
    output.ranges->push_back(word.range(token.begin, token.end));
    if (output.tokens)
      output.tokens->push_back(model.shown(token.id, word.text.substr(token.begin, token.end - token.begin)));
  };
  const size_t first = output.ids.size();
  encode_word(word.text, cache, output.ids);
  size_t end = 0;
  bool is_known = true;
  for (size_t i = first; i < output.ids.size() && is_known; ++i) {
    const size_t size = model.num_bytes_of(output.ids[i]);
    is_known = size > 0;
    end += size;
  }
  if (is_known && end == word.text.size()) {
    uint32_t begin = 0;
    for (size_t i = first; i < output.ids.size(); ++i) {
      const uint32_t next = begin + static_cast<uint32_t>(model.num_bytes_of(output.ids[i]));
      put({output.ids[i], begin, next});
      begin = next;
    }
    return;
  }
  output.ids.resize(first);
  std::vector<WordToken> tokens;
  model.trace_word(word.text, tokens);
  for (const WordToken& token : tokens) {
    output.ids.push_back(token.id);
    put(token);
  }
}

void Pipeline::encode_word(std::string_view word, WordCache& cache, std::vector<int32_t>& ids) const {
  if (word.size() > WordCache::kMaxBytes) return parts_.model->encode_word(word, ids);
  const uint64_t hash = hash64(word);
  if (const auto known = cache.find(word, hash)) {
    ids.insert(ids.end(), known->begin(), known->end());
    return;
  }
  const size_t begin = ids.size();
  parts_.model->encode_word(word, ids);
  cache.put(word, hash, std::span(ids).subspan(begin));
}

const std::string* Pipeline::find_token(int32_t id) const {
  const auto added = added_by_id_.find(id);
  return added != added_by_id_.end() ? &added->second->content : parts_.model->vocabulary().token(id);
}

// Decoders see added tokens like all others. One that is matched in normalized text decodes to its normalized text.
std::string Pipeline::decode(std::span<const int32_t> ids) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int32_t id : ids) {
    std::string token = token_of(id);
    if (token.empty()) continue;  // an id that was left free
    const auto added = added_by_id_.find(id);
    if (added != added_by_id_.end() && added->second->normalized && parts_.normalizer) {
      std::string normalized = parts_.normalizer->applied(token);
      if (!normalized.empty()) token = std::move(normalized);
    }
    tokens.push_back(std::move(token));
  }
  if (parts_.decoder) parts_.decoder->decode(tokens);
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && !parts_.decoder) text += ' ';  // what Hugging Face does with a file that names no decoder
    text += tokens[i];
  }
  return text;
}

std::optional<int32_t> Pipeline::id_of(std::string_view token) const {
  const auto added = added_by_content_.find(token);
  return added != added_by_content_.end() ? added->second : parts_.model->vocabulary().find(token);
}

std::string Pipeline::token_of(int32_t id) const {
  check(id >= 0 && id < vocab_size_, "{}: id {} has no token, expected one of 0 to {}", parts_.name, id,
        vocab_size_ - 1);
  const std::string* const token = find_token(id);
  return token ? *token : std::string();
}

}  // namespace athanor::text
