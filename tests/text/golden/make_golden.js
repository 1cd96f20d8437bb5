// Writes huggingface.json: what Hugging Face tokenizers (npm "tokenizers" 0.23.2) makes of small files and texts.
//   npm install tokenizers@0.23.2 && node make_golden.js > huggingface.json
// Run where the package is installed; the product never links it.
const fs = require("fs"), os = require("os"), path = require("path");
const { Tokenizer } = require(require.resolve("tokenizers", { paths: [process.cwd()] }));

const BLANK = {
  version: "1.0", truncation: null, padding: null, added_tokens: [], normalizer: null, pre_tokenizer: null,
  post_processor: null, decoder: null,
};
const bpe = (extra) => ({
  type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null,
  fuse_unk: false, byte_fallback: false, ignore_merges: false, vocab: {}, merges: [], ...extra,
});

const SAMPLE = [
  "The quick brown fox jumps over the lazy dog; the dog's tail doesn't wag, it's 1234 o'clock.\n",
  "Café naïve résumé — “quoted” text… 你好，世界。今天天气很好。 Привет мир! こんにちは\n",
  "for (int i = 0; i < 10; ++i) { printf(\"%d\\n\", i); }\n",
  "the theme then there they others other lower newest widest slow low lowest\n",
].join("");

const TEXTS = [
  "", " ", "  ", "\n", "a", "The quick brown fox", "  two  spaces   here  ", "it's they'll WE'RE I'd'",
  "line one\nline two\r\n\r\n  indented\tTabbed", "你好，世界", "Привет, мир! こんにちは", "café naïve CAFÉ e\u0301 \u00c5 \ufb01",
  "1 12 123 1234567 3.14 ½ Ⅷ ٣", "x+=1;// comment\nif(a&&b){return(c);}", "emoji 😀👨‍👩‍👧 end", "…—“”!?.,;:'\"-_@#",
  "the lowest newest others", "<s>the</s> <s> the<pad>dog", "low<pad>lower <pad> slowest", "<pad> <pad>  <pad>\n\n<pad>", "\u00a0nbsp\u3000wide\u200bzero",
  "▁the ▁dog", "İstanbul ΣΑΣ ß STRASSE", "\u0000nul\u0007bell", "don't  stop\u2028now", "ab\u0301c\u0323d",
];

function train(parts) {
  const file = path.join(os.tmpdir(), "golden_sample.txt");
  fs.writeFileSync(file, SAMPLE);
  const tokenizer = Tokenizer.fromString(JSON.stringify({ ...BLANK, ...parts }));
  tokenizer.train([file]);
  const saved = path.join(os.tmpdir(), "golden_tokenizer.json");
  tokenizer.save(saved);
  return JSON.parse(fs.readFileSync(saved, "utf8")).model;
}

const byteLevel = (add_prefix_space, use_regex) => ({ type: "ByteLevel", add_prefix_space, trim_offsets: true, use_regex });
const split = (pattern, behavior, invert = false) => ({ type: "Split", pattern, behavior, invert });
const sequence = (...pretokenizers) => ({ type: "Sequence", pretokenizers });
const normalizers = (...list) => ({ type: "Sequence", normalizers: list });
const decoders = (...list) => ({ type: "Sequence", decoders: list });
const metaspace = (prepend_scheme, s = true) => ({ type: "Metaspace", replacement: "▁", prepend_scheme, split: s });
const LLAMA3 = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const QWEN2 = LLAMA3.replace("{1,3}", "");
const added = (content, id, flags = {}) => ({
  id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true, ...flags,
});

// Adds tokens to a model's vocabulary, behind those it has.
function extend(model, tokens) {
  const vocab = { ...model.vocab };
  for (const token of tokens) if (!(token in vocab)) vocab[token] = Object.keys(vocab).length;
  return { ...model, vocab };
}

const BYTES = Array.from({ length: 256 }, (_, b) => "<0x" + b.toString(16).toUpperCase().padStart(2, "0") + ">");
const models = {};
models.bytes_trained = train({ model: bpe(), pre_tokenizer: byteLevel(false, true) });
const byteChars = [];
for (let b = 0, next = 256; b < 256; ++b)
  byteChars.push(String.fromCodePoint((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174 ? b : next++));
models.bytes = extend(models.bytes_trained, byteChars);
models.bytes_ignore = { ...extend(models.bytes, ["Ġwhole"]), ignore_merges: true };
models.words = { ...extend(train({ model: bpe(), pre_tokenizer: { type: "WhitespaceSplit" } }), ["<unk>", " "]), unk_token: "<unk>" };
models.words_fused = { ...models.words, fuse_unk: true };
models.pieces = {
  ...extend(train({ model: bpe(), pre_tokenizer: metaspace("always") }), ["<unk>", ...BYTES]),
  unk_token: "<unk>", byte_fallback: true, fuse_unk: true,
};
models.suffixed = train({ model: bpe({ end_of_word_suffix: "</w>", unk_token: "<unk>" }), pre_tokenizer: { type: "BertPreTokenizer" } });
models.suffixed = { ...extend(models.suffixed, ["<unk>"]), unk_token: "<unk>" };
models.prefixed = train({ model: bpe({ continuing_subword_prefix: "##", unk_token: "<unk>" }), pre_tokenizer: { type: "BertPreTokenizer" } });
models.prefixed = { ...extend(models.prefixed, ["<unk>"]), unk_token: "<unk>" };
models.levels = { type: "WordLevel", vocab: Object.fromEntries(["<unk>", "the", "dog", "low", ".", "1", "12", "quick"].map((t, i) => [t, i])), unk_token: "<unk>" };
models.wordpiece = train({ model: { type: "WordPiece", unk_token: "[UNK]", continuing_subword_prefix: "##", max_input_chars_per_word: 20, vocab: {} }, pre_tokenizer: { type: "BertPreTokenizer" } });
models.wordpiece = extend(models.wordpiece, ["[UNK]"]);
models.unigram = {
  type: "Unigram", unk_id: 0, byte_fallback: false,
  vocab: [["<unk>", 0], ["▁", -3], ["▁the", -2.5], ["the", -4], ["t", -5], ["h", -5.5], ["e", -4.5], ["▁d", -5], ["og", -5],
    ["▁dog", -6], ["s", -5], ["o", -5], ["w", -6], ["low", -4], ["er", -4], ["est", -4], ["▁low", -4.2], ["l", -6], ["r", -6],
    ["n", -6], ["ne", -5.5], ["q", -8], ["u", -6], ["i", -6], ["c", -6], ["k", -6], ["▁quick", -7], ["你", -7], ["你好", -7.5], ["1", -6]],
};
models.unigram_bytes = { ...models.unigram, byte_fallback: true, vocab: [...models.unigram.vocab, ...BYTES.map((b) => [b, -20])] };

const bytesDecoder = byteLevel(true, true);
const next = (name, i = 0) => (Array.isArray(models[name].vocab) ? models[name].vocab.length : Object.keys(models[name].vocab).length) + i;
const special = (name) => [added("<s>", next(name)), added("</s>", next(name, 1)), added("<pad>", next(name, 2))];
const cases = [
  { name: "gpt2", model: "bytes", pre_tokenizer: byteLevel(false, true), decoder: bytesDecoder },
  { name: "prefix space", model: "bytes", pre_tokenizer: byteLevel(true, true), decoder: bytesDecoder, added_tokens: special("bytes") },
  { name: "llama3", model: "bytes_ignore", pre_tokenizer: sequence(split({ Regex: LLAMA3 }, "Isolated"), byteLevel(false, false)), decoder: bytesDecoder, added_tokens: special("bytes_ignore") },
  { name: "qwen2", model: "bytes", normalizer: { type: "NFC" }, pre_tokenizer: sequence(split({ Regex: QWEN2 }, "Isolated"), byteLevel(false, false)), decoder: bytesDecoder },
  { name: "gpt4", model: "bytes", pre_tokenizer: sequence(split({ Regex: LLAMA3 }, "Removed", true), byteLevel(false, false)), decoder: bytesDecoder },
  { name: "bytes without regex", model: "bytes", pre_tokenizer: byteLevel(false, false), decoder: bytesDecoder },
  { name: "bytes first", model: "bytes", pre_tokenizer: sequence(byteLevel(false, true), split({ String: "Ġ" }, "Isolated")), decoder: bytesDecoder },
  { name: "digits and bytes", model: "bytes", pre_tokenizer: sequence({ type: "Digits", individual_digits: true }, byteLevel(false, true)), decoder: bytesDecoder },
  { name: "digit runs", model: "bytes", pre_tokenizer: sequence({ type: "Digits", individual_digits: false }, byteLevel(false, false)), decoder: bytesDecoder },
  { name: "byte normalizer", model: "bytes", normalizer: { type: "ByteLevel" }, decoder: bytesDecoder },
  { name: "llama2", model: "pieces", normalizer: normalizers({ type: "Prepend", prepend: "▁" }, { type: "Replace", pattern: { String: " " }, content: "▁" }),
    decoder: decoders({ type: "Replace", pattern: { String: "▁" }, content: " " }, { type: "ByteFallback" }, { type: "Fuse" }, { type: "Strip", content: " ", start: 1, stop: 0 }) },
  { name: "fuse", model: "words_fused", decoder: { type: "Fuse" } },
  { name: "unk", model: "words", decoder: { type: "Fuse" } },
  { name: "suffixed", model: "suffixed", pre_tokenizer: { type: "BertPreTokenizer" }, decoder: { type: "BPEDecoder", suffix: "</w>" } },
  { name: "prefixed", model: "prefixed", pre_tokenizer: { type: "BertPreTokenizer" }, decoder: { type: "WordPiece", prefix: "##", cleanup: true } },
  { name: "levels", model: "levels", pre_tokenizer: { type: "Whitespace" } },
  { name: "levels by space", model: "levels", pre_tokenizer: { type: "WhitespaceSplit" } },
  { name: "levels by delimiter", model: "levels", pre_tokenizer: { type: "CharDelimiterSplit", delimiter: "o" } },
  { name: "wordpiece", model: "wordpiece", normalizer: { type: "BertNormalizer", clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true }, pre_tokenizer: { type: "BertPreTokenizer" }, decoder: { type: "WordPiece", prefix: "##", cleanup: true } },
  { name: "wordpiece cased", model: "wordpiece", normalizer: { type: "BertNormalizer", clean_text: false, handle_chinese_chars: false, strip_accents: false, lowercase: false }, pre_tokenizer: { type: "BertPreTokenizer" }, decoder: { type: "WordPiece", prefix: "##", cleanup: false } },
  { name: "unigram", model: "unigram", pre_tokenizer: metaspace("always"), decoder: metaspace("always") },
  { name: "unigram bytes", model: "unigram_bytes", pre_tokenizer: metaspace("always"), decoder: decoders({ type: "ByteFallback" }, metaspace("always")) },
];
for (const scheme of ["always", "first", "never"])
  for (const s of [true, false])
    cases.push({ name: `metaspace ${scheme} ${s}`, model: "pieces", pre_tokenizer: metaspace(scheme, s), decoder: decoders({ type: "ByteFallback" }, { type: "Fuse" }, metaspace(scheme, s)), added_tokens: special("pieces") });
for (const behavior of ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]) {
  for (const invert of [false, true]) {
    cases.push({ name: `split string ${behavior} ${invert}`, model: "words", pre_tokenizer: split({ String: " " }, behavior, invert), decoder: { type: "Fuse" } });
    cases.push({ name: `split regex ${behavior} ${invert}`, model: "words", pre_tokenizer: split({ Regex: "\\d|[a-e]+|\\s" }, behavior, invert), decoder: { type: "Fuse" } });
  }
  cases.push({ name: `punctuation ${behavior}`, model: "words", pre_tokenizer: { type: "Punctuation", behavior }, decoder: { type: "Fuse" } });
}
const replaceDigits = { type: "Replace", pattern: { Regex: "[0-9]+" }, content: "#" };
for (const [name, normalizer] of Object.entries({
  nfc: { type: "NFC" }, nfd: { type: "NFD" }, nfkc: { type: "NFKC" }, nfkd: { type: "NFKD" }, lowercase: { type: "Lowercase" },
  accents: normalizers({ type: "NFD" }, { type: "StripAccents" }), strip: { type: "Strip", strip_left: true, strip_right: true },
  strip_left: { type: "Strip", strip_left: true, strip_right: false }, replace: replaceDigits, prepend: { type: "Prepend", prepend: "the " },
}))
  cases.push({ name: `normalizer ${name}`, model: "bytes", normalizer, pre_tokenizer: byteLevel(false, true), decoder: bytesDecoder });
for (const [name, flags] of Object.entries({
  plain: {}, single_word: { single_word: true }, lstrip: { lstrip: true }, rstrip: { rstrip: true }, both: { lstrip: true, rstrip: true },
  normalized: { normalized: true, special: false },
}))
  cases.push({ name: `added ${name}`, model: "bytes", normalizer: { type: "Lowercase" }, pre_tokenizer: byteLevel(false, true), decoder: bytesDecoder,
    added_tokens: ["<pad>", "owe", "lowest ", "Quick b"].map((content, i) => added(content, next("bytes", i), flags)) });

(async () => {
  const out = { texts: TEXTS, sample: SAMPLE, models, cases: [] };
  for (const { model, name, ...parts } of cases) {
    const tokenizer = Tokenizer.fromString(JSON.stringify({ ...BLANK, ...parts, model: models[model] }));
    const result = { name, model, parts, ids: [], decoded: [] };
    for (const text of TEXTS) {
      const ids = (await tokenizer.encode(text, null, { addSpecialTokens: false })).getIds();
      result.ids.push(ids);
      // They write a normalized added token as the normalizer left it, we write it as it was given.
      result.decoded.push(name === "added normalized" ? null : await tokenizer.decode(ids, false));
    }
    out.cases.push(result);
  }
  const lines = (list) => "[\n" + list.map((item) => JSON.stringify(item)).join(",\n") + "\n]";
  console.log(`{"texts": ${JSON.stringify(TEXTS)},\n"sample": ${JSON.stringify(SAMPLE)},\n"models": {` +
    Object.entries(models).map(([k, v]) => `\n${JSON.stringify(k)}: ${JSON.stringify(v)}`).join(",") + `\n},\n"cases": ${lines(out.cases)}}`);
})();
