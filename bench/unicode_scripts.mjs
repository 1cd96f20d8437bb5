// Where the pre-tokenizer UnicodeScripts cuts, against Hugging Face's Rust library: each code point in order, each
// between Latin letters, ideographs and digits, and random texts.
//
//   npm install tokenizers@0.23.2                                  (in any folder)
//   node bench/unicode_scripts.mjs FOLDER build/release/athanor    (that folder)
//
// A line for each text: the number of pieces, or the first difference. The exit code is 1 if there is one.
import { createRequire } from 'node:module';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const [folder, program] = process.argv.slice(2);
const { Tokenizer } = createRequire(resolve(folder, 'x.js'))('tokenizers');
const scratch = mkdtempSync(join(tmpdir(), 'scripts-'));
const file = join(scratch, 'scripts.json'), input = join(scratch, 'text.txt');
// Every piece is unknown to this model and one token: its offsets are those of the piece.
writeFileSync(file, JSON.stringify({
  version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null,
  pre_tokenizer: { type: 'UnicodeScripts' }, post_processor: null, decoder: null,
  model: { type: 'WordLevel', vocab: { '<unk>': 0 }, unk_token: '<unk>' },
}));
const library = await Tokenizer.fromFile(file);

let seed = 7;
const random = (n) => { seed = (seed * 1103515245 + 12345) % 2147483648; return Math.floor(seed / 2147483648 * n); };
const isSurrogate = (c) => c >= 0xD800 && c < 0xE000;
function everyCharacter(between) {
  let text = '';
  for (let c = 0; c < 0x110000; ++c)
    if (!isSurrogate(c)) text += String.fromCodePoint(c) + between;
  return text;
}
const texts = [['in order', everyCharacter('')], ['between Latin letters', everyCharacter('a')],
  ['between ideographs', everyCharacter('中')], ['between digits', everyCharacter('1')]];
let mixed = '';
for (let i = 0; i < 3000000; ++i) {
  const c = random([0x3000, 0x20000, 0x110000][random(3)]);
  mixed += random(5) === 0 || isSurrogate(c) ? ' ' : String.fromCodePoint(c);
}
texts.push(['random', mixed]);
const few = [' ', 'a', '中', 'ー', 'か', 'カ', '1', 'α', '\u0301', '\u{1F600}', '\u{1FAE0}', '\n'];
for (let i = 0; i < 300; ++i)
  texts.push([null, Array.from({ length: random(6) }, () => few[random(few.length)]).join('')]);

let differences = 0;
for (const [name, text] of texts) {
  writeFileSync(input, text);
  const theirs = (await library.encode(text, null, { addSpecialTokens: false })).getOffsets();
  const ours = JSON.parse(execFileSync(program, ['tokenizer', 'encode', '--tokenizer', file, '--input', input, '--offsets'],
    { maxBuffer: 2 ** 31 - 1 })).offsets;
  const at = theirs.findIndex((range, i) => String(range) !== String(ours[i]));
  if (at >= 0 || theirs.length !== ours.length) {
    ++differences;
    console.log(`${name ?? JSON.stringify(text)}: piece ${at}: ${theirs[at]} there, ${ours[at]} here`);
  } else if (name) console.log(`${name}: ${theirs.length} pieces, the same`);
}
console.log(`${texts.length} texts, ${differences} differ`);
process.exitCode = differences ? 1 : 0;
