// Chat templates against npm @huggingface/jinja: the same text for 200 conversations per template.
//
//   npm install --prefix /tmp/oracle @huggingface/jinja
//   NODE_PATH=/tmp/oracle/node_modules node bench/chat_templates.mjs FOLDER [PROGRAM [DUMP]]
//
// FOLDER holds templates as *.jinja; PROGRAM is build/release/athanor. A conversation that both refuse counts as
// equal. DUMP: a folder for the conversations and our texts, which chat_templates.py compares with Jinja itself.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const require = createRequire(import.meta.url);
const { Template } = require(path.join(process.env.NODE_PATH ?? "", "@huggingface/jinja"));

const [folder, program = "build/release/athanor", dump] = process.argv.slice(2);
const kConversations = 200;
const kNow = "2024-07-26";

const RealDate = Date;
globalThis.Date = class extends RealDate {
  constructor(...args) {
    super(...(args.length ? args : [2024, 6, 26, 12]));
  }
};

function dice(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return { below: (n) => Math.floor(next() * n), chance: (p) => next() < p };
}

const kPieces = ["Hello", " how are you?", "\n", "\n\n", " ", "  ", "\t", "caf\u00e9", "\u4f60\u597d", "\u{1F600}", "e\u0301", "<b>&amp;</b>",
  "'quoted'", '"double"', "back\\slash", "{{ x }}", "{% if %}", "<|im_end|>", "</s>", "[INST]", "12345", "print('a')", "```py\nx = 1\n```",
  "<think>", "</think>", "I think so.", "\u200b", "\r\n", "-", ".", "Yes", "a,b,c", "<tool_call>", "\u00a0"];

function content(d) {
  if (d.chance(0.06)) return "";
  let text = "";
  for (let i = 1 + d.below(6); i > 0; --i) text += kPieces[d.below(kPieces.length)];
  return text;
}

const kTool = (name, extra) => ({ type: "function", function: { name, description: `Get the ${name}, "fast" & caf\u00e9`, parameters: {
  type: "object", properties: { place: { type: "string", description: "City\nand country" }, ...extra }, required: ["place"] } } });
const kTools = [kTool("weather", {}), kTool("wind_speed", { unit: { type: "string", enum: ["km/h", "kn"] }, days: { type: "integer" } })];

function conversation(seed, source) {
  const d = dice(seed);
  const talk = { messages: [], tools: null, documents: null };
  if (d.chance(0.5)) talk.messages.push({ role: "system", content: content(d) });
  const has_tools = source.includes("tools") && d.chance(0.35);
  if (has_tools) talk.tools = kTools.slice(0, 1 + d.below(2));
  if (source.includes("documents") && d.chance(0.2)) talk.documents = [{ title: "One", text: "First text.", content: "First text." }, { title: "Two", text: content(d), content: "x" }];
  if (source.includes("enable_thinking") && d.chance(0.5)) talk.enable_thinking = d.chance(0.5);
  const turns = 1 + d.below(4);
  for (let i = 0; i < turns; ++i) {
    talk.messages.push({ role: "user", content: content(d) });
    if (has_tools && source.includes("tool_calls") && d.chance(0.4)) {
      const call = { id: "call12345", type: "function", function: { name: "weather", arguments: { place: "Paris, \u00cele-de-France", days: d.below(5) } } };
      talk.messages.push({ role: "assistant", content: d.chance(0.5) ? "" : content(d), tool_calls: [call] });
      talk.messages.push({ role: "tool", tool_call_id: "call12345", name: "weather", content: d.chance(0.5) ? "22 \u00b0C" : '{"t": 22}' });
    }
    if (i + 1 < turns || d.chance(0.5)) {
      const answer = { role: "assistant", content: content(d) };
      if (source.includes("reasoning_content") && d.chance(0.3)) answer.reasoning_content = content(d);
      talk.messages.push(answer);
    }
  }
  return talk;
}

function npm_text(template, talk, prompt, tokens) {
  try {
    return { text: template.render({ ...talk, ...tokens, add_generation_prompt: prompt }) };
  } catch (error) {
    return { error: String(error.message) };
  }
}

const tokens = { bos_token: "<s>", eos_token: "</s>" };
const token_args = Object.entries(tokens).flatMap(([name, text]) => ["--token", `${name}=${text}`]);
let equal_templates = 0, total = 0, equal = 0, refused = 0;
const names = fs.readdirSync(folder).filter((name) => name.endsWith(".jinja")).sort();
for (const name of names) {
  const source = fs.readFileSync(path.join(folder, name), "utf8");
  const talks = Array.from({ length: kConversations }, (_, i) => conversation(1000 + i, source));
  let template = null;
  try {
    template = new Template(source);
  } catch (error) {
    console.log(`${name}: npm cannot parse it: ${error.message}`);
  }
  let same = 0, both_refuse = 0, first = "";
  for (const prompt of [false, true]) {
    const part = talks.filter((_, i) => (i % 2 === 1) === prompt);
    const lines = part.map((talk) => JSON.stringify(talk)).join("\n");
    let ours;
    try {
      ours = execFileSync(program, ["tokenizer", "render", path.join(folder, name), "--json", "--now", kNow, ...token_args, ...(prompt ? ["--add-generation-prompt"] : [])],
        { input: lines, maxBuffer: 1 << 30, encoding: "utf8", stdio: ["pipe", "pipe", "pipe"] });
    } catch (error) {
      ours = error.stdout ?? "";
      if (!ours) first = first || String(error.stderr);
    }
    const texts = ours.split("\n").filter(Boolean).map((line) => JSON.parse(line));
    if (dump) {
      fs.mkdirSync(dump, { recursive: true });
      fs.writeFileSync(path.join(dump, `${name}.${prompt}.json`), JSON.stringify({ source, tokens, prompt, talks: part, ours: texts }));
    }
    if (!template) continue;
    part.forEach((talk, i) => {
      const theirs = npm_text(template, talk, prompt, tokens), our = texts[i] ?? { error: "no line" };
      const alike = theirs.error !== undefined ? our.error !== undefined : our.text === theirs.text;
      if (alike) same++;
      if (alike && theirs.error !== undefined) both_refuse++;
      if (!alike && !first) first = JSON.stringify({ talk, our, theirs }).slice(0, 1500);
    });
  }
  if (template) {
    total += kConversations;
    equal += same;
    refused += both_refuse;
    if (same === kConversations) equal_templates++;
  }
  console.log(`${name}: ${same} of ${kConversations} equal, ${both_refuse} refused by both${first ? `\n    first difference: ${first}` : ""}`);
}
console.log(`${equal_templates} of ${names.length} templates, ${equal} of ${total} conversations equal (${refused} refused by both)`);
