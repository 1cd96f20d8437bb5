// Ids, offsets, tokens and decoded text of tokenizer.json files against Hugging Face's Rust library.
//
//   npm install tokenizers@0.23.2                                        (in any folder)
//   node bench/tokenizers.mjs FOLDER build/release/athanor TEXT FILE...  (that folder; FILE: a tokenizer.json)
//
// A line for each file: the number of tokens, or the first difference. The exit code is 1 if there is one.
import { createRequire } from 'node:module';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const [folder, program, textFile, ...files] = process.argv.slice(2);
const { Tokenizer } = createRequire(resolve(folder, 'x.js'))('tokenizers');
const scratch = join(mkdtempSync(join(tmpdir(), 'tokenizers-')), 'ids.json');
const run = (...args) => JSON.parse(execFileSync(program, ['tokenizer', ...args], { maxBuffer: 2 ** 31 - 1 }));
const text = readFileSync(textFile, 'utf8');
let differences = 0;

async function compare(file) {
  const library = await Tokenizer.fromFile(file);
  const theirs = await library.encode(text, null, { addSpecialTokens: false });
  const ours = run('encode', '--tokenizer', file, '--input', textFile, '--offsets', '--tokens');
  const columns = [
    ['id', theirs.getIds(), ours.ids],
    ['offsets', theirs.getOffsets(), ours.offsets],
    ['token', theirs.getTokens(), ours.tokens],
  ];
  const most = Math.max(columns[0][1].length, ours.ids.length);
  for (let i = 0; i < most; ++i)
    for (const [name, a, b] of columns)
      if (String(a[i]) !== String(b[i])) return `token ${i}: ${name} ${JSON.stringify(b[i])}, expected ${JSON.stringify(a[i])}`;
  writeFileSync(scratch, JSON.stringify(theirs.getIds()));
  const expected = await library.decode(theirs.getIds(), false);
  if (run('decode', '--tokenizer', file, '--input', scratch, '--json').text !== expected) return 'another decoded text';
  console.log(`${file}: ${ours.ids.length} tokens, the same`);
  return '';
}

for (const file of files) {
  const difference = await compare(file).catch((error) => String(error.message).split('\n').at(-1));
  if (!difference) continue;
  ++differences;
  console.log(`${file}: ${difference}`);
}
process.exit(differences ? 1 : 0);
