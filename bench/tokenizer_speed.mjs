// Speed of tokenizer.json files beside Hugging Face's Rust library: loading, encoding documents, the same with offsets.
//
//   npm install tokenizers@0.23.2                                                   (in any folder)
//   taskset -c 1 node bench/tokenizer_speed.mjs FOLDER build/release/athanor-bench ROUNDS TEXT... -- FILE...
//
// Texts are cut at line ends into documents of 4,096 characters or more. Both sides use one thread, load the file afresh in
// each round and encode all documents once before they are timed. The library gets all documents in one call and hands
// back objects; it always makes offsets. Times are of the processor, so that other programs on it count as little as they can.
// A file is read without its folder's other files. Ids are compared first, in full. A line for each file: the library's time over ours, by
// the shortest of the rounds; then the geometric mean and the least. The exit code is 1 if ids differ.
import { createRequire } from 'node:module';
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';

process.env.RAYON_NUM_THREADS = '1';
process.env.TOKENIZERS_PARALLELISM = 'false';
const [folder, program, rounds, ...rest] = process.argv.slice(2);
const { Tokenizer } = createRequire(resolve(folder, 'x.js'))('tokenizers');
const texts = rest.slice(0, rest.indexOf('--'));
const files = rest.slice(rest.indexOf('--') + 1);
const scratch = mkdtempSync(join(tmpdir(), 'tokenizers-'));

const documents = [];
for (const file of texts) {
  const text = readFileSync(file, 'utf8');
  for (let begin = 0, end; begin < text.length; begin = end) {
    const line = text.indexOf('\n', begin + 4096);
    end = line < 0 ? text.length : line + 1;
    documents.push(text.slice(begin, end));
  }
}
const documentsFile = join(scratch, 'documents.json');
writeFileSync(documentsFile, JSON.stringify(documents));

async function theirs(file) {
  let start = process.cpuUsage();
  const seconds = () => {
    const { user, system } = process.cpuUsage(start);
    return (user + system) / 1e6;
  };
  const library = await Tokenizer.fromFile(file);
  const load = seconds();
  const options = { addSpecialTokens: false };
  const encodings = await library.encodeBatch(documents, options);
  start = process.cpuUsage();
  await library.encodeBatch(documents, options);
  return { load, encode: seconds(), encodings };
}

function ours(file, ...more) {
  const args = ['tokenizer', '--tokenizer', file, '--documents', documentsFile, ...more];
  const report = JSON.parse(execFileSync(program, args));
  return { load: report.load_seconds, encode: report.encode_seconds, offsets: report.offsets_seconds };
}

async function compareIds(file) {
  const out = join(scratch, 'ids.json');
  ours(file, '--ids', out);
  const mine = JSON.parse(readFileSync(out, 'utf8'));
  const { encodings } = await theirs(file);
  let tokens = 0;
  for (let i = 0; i < documents.length; ++i) {
    const ids = encodings[i].getIds();
    const at = mine[i].findIndex((id, k) => id !== ids[k]);
    if (at >= 0 || mine[i].length !== ids.length) throw new Error(`document ${i}: token ${at} has another id`);
    tokens += ids.length;
  }
  return tokens;
}

const ratios = { encode: [], offsets: [], load: [] };
let differences = 0;
console.log(`${documents.length} documents, ${Buffer.byteLength(documents.join('')) / 1e6} MB, ${rounds} rounds`);
for (const source of files) {
  const name = basename(dirname(source)) === 'models' ? basename(dirname(dirname(source))) : source;
  const file = join(scratch, 'alone.json');
  copyFileSync(source, file);
  try {
    const tokens = await compareIds(file);
    const least = { a: {}, b: {} };
    const note = (side, times) => {
      for (const [what, took] of Object.entries(times)) if (!(side[what] <= took)) side[what] = took;
    };
    for (let round = 0; round < Number(rounds); ++round) {
      const { load, encode } = await theirs(file);
      note(least.a, { load, encode, offsets: encode });
      note(least.b, ours(file));
    }
    const { a, b } = least;
    for (const what in ratios) ratios[what].push(a[what] / b[what]);
    const times = (what) => `${what} ${(a[what] / b[what]).toFixed(2)} (${(a[what] * 1e3).toFixed(0)} / ${(b[what] * 1e3).toFixed(0)} ms)`;
    console.log(`${name}: ${tokens} tokens, the same ids; ${times('encode')}, ${times('offsets')}, ${times('load')}`);
  } catch (error) {
    ++differences;
    console.log(`${name}: ${error.message}`);
  }
}
for (const [what, all] of Object.entries(ratios)) {
  const mean = Math.exp(all.reduce((sum, x) => sum + Math.log(x), 0) / all.length);
  console.log(`${what}: geometric mean ${mean.toFixed(2)}, least ${Math.min(...all).toFixed(2)}`);
}
process.exit(differences ? 1 : 0);
