// Writes gpt2.json: ids that tiktoken (npm "tiktoken" 1.0.22) gives with GPT-2's vocabulary.
//   npm install tiktoken@1.0.22 && node make_gpt2_golden.js DATA_FOLDER > gpt2.json
const fs = require("fs"), path = require("path"), crypto = require("crypto");
const { get_encoding } = require(require.resolve("tiktoken", { paths: [process.cwd()] }));
const encoding = get_encoding("gpt2");
const folder = process.argv[2];

const texts = [
  "Hello world 123 你好", "", " ", "   leading and trailing   ", "tabs\tand\r\nline\n\n\nends  \n",
  "def f(x):\n    return x ** 2  # square\n", "我们的祖国是花园，花园的花朵真鲜艳。", "naïve café — “quotes” … №5 ½",
  "it's we'll I'VE they'd", "😀👩‍🚀🇨🇳", "a<|endoftext|>b", "0123456789 3.14159 1,000,000", "ﬁ Ⅷ ٣ ²",
  "https://example.org/a?b=c&d=%20e#f", "\u0000\u0001\u007f\u0080\u200b\ufeff",
].map((text) => ({ text, ids: Array.from(encoding.encode(text, "all")) }));

const files = ["tinyshakespeare.txt", "wikitext2_test.txt", "gsm8k_test.jsonl"].map((file) => {
  const ids = Array.from(encoding.encode(fs.readFileSync(path.join(folder, file), "utf8"), "all"));
  return { file, count: ids.length, sha256: crypto.createHash("sha256").update(ids.map((id) => id + ",").join("")).digest("hex") };
});

console.log(JSON.stringify({ texts, files }, null, 1));
