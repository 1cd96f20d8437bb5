// Training of byte-level BPE beside Hugging Face's Rust library: the same merges, and the processor time of both.
//
//   npm install tokenizers@0.23.2                                                        (in any folder)
//   taskset -c 1 node bench/tokenizer_training.mjs FOLDER build/release/athanor PAIRS TEXT...
//
// Each turn trains 30,000 pieces of the texts with the library, then with our program, each in a process of its own, on
// one thread. The times are of the processor, so that other programs on it count as little as they can; ours has the
// start of the program in it, the library's neither that of node nor the saving. A line for each turn, then the medians.
// Before that the merges are compared. The library takes each line for a text of its own, so ours gets lines as documents
// for that; it knows all 256 bytes from the start and ends some merges earlier. The exit code is 1 if a merge differs.
import { createRequire } from 'node:module';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const [folder, program, pairs, ...texts] = process.argv.slice(2);

if (program === '--library') {
  const { Tokenizer } = createRequire(resolve(folder, 'x.js'))('tokenizers');
  const parts = { add_prefix_space: false, trim_offsets: true, use_regex: true };
  const library = Tokenizer.fromString(
    JSON.stringify({
      version: '1.0',
      added_tokens: [],
      pre_tokenizer: { type: 'ByteLevel', ...parts },
      decoder: { type: 'ByteLevel', ...parts },
      model: { type: 'BPE', fuse_unk: false, byte_fallback: false, vocab: {}, merges: [] },
    }),
  );
  const start = process.cpuUsage();
  library.train(texts);
  const { user, system } = process.cpuUsage(start);
  library.save(pairs, false);
  console.log((user + system) / 1e6);
  process.exit(0);
}

const scratch = mkdtempSync(join(tmpdir(), 'training-'));
const [theirs, ours, times] = ['theirs.json', 'ours.json', 'times'].map((name) => join(scratch, name));
const env = { ...process.env, RAYON_NUM_THREADS: '1', TOKENIZERS_PARALLELISM: 'false' };
const quiet = { env, stdio: ['ignore', 'pipe', 'ignore'] };
const self = fileURLToPath(import.meta.url);
const merges = (file) => JSON.parse(readFileSync(file, 'utf8')).model.merges.map((merge) => [merge].flat().join(' '));
const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];

function runLibrary() {
  return Number(execFileSync(process.execPath, [self, folder, '--library', theirs, ...texts], quiet));
}

function runOurs(...files) {
  const train = ['tokenizer', 'train', '--vocab-size', '30000', '--threads', '1', '--output', ours, ...files];
  execFileSync('/usr/bin/time', ['-f', '%U %S', '-o', times, program, ...train], quiet);
  const [user, system] = readFileSync(times, 'utf8').split(' ').map(Number);
  return user + system;
}

const lines = texts.flatMap((file) => readFileSync(file, 'utf8').match(/[^\n]*\n|[^\n]+$/g));
const documents = join(scratch, 'lines.jsonl');
writeFileSync(documents, lines.map((text) => JSON.stringify({ text })).join('\n'));
runLibrary();
runOurs(documents);
const [expected, got] = [merges(theirs), merges(ours)];
const at = got.findIndex((merge, i) => merge !== expected[i]);
const differs = at >= 0 || got.length < expected.length - 256;
console.log(at < 0 ? `${got.length} merges, the same` : `merge ${at}: '${got[at]}', expected '${expected[at]}'`);

const turns = [];
for (let turn = 0; turn < Number(pairs); ++turn) {
  const [library, mine] = [runLibrary(), runOurs(...texts)];
  turns.push({ library, ours: mine, ratio: library / mine });
  console.log(`library ${library.toFixed(2)} s, ours ${mine.toFixed(2)} s, ${(library / mine).toFixed(2)}x`);
}
const [l, o, r] = ['library', 'ours', 'ratio'].map((key) => median(turns.map((turn) => turn[key])));
console.log(`medians: library ${l.toFixed(2)} s, ours ${o.toFixed(2)} s, ratio ${r.toFixed(2)}x`);
process.exit(differs ? 1 : 0);
