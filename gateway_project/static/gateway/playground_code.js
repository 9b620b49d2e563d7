// A chat completion as a program that sends it: with curl, in Python with each SDK, in JavaScript. Its images are files.
"use strict";

const DATA_URL = /^data:(image\/[\w.+-]+);base64,/;
// Parameters that OpenAI's SDK takes by their names; all others go into extra_body.
const SDK_PARAMETERS = [
  "model", "messages", "temperature", "max_tokens", "max_completion_tokens", "tools", "tool_choice",
  "parallel_tool_calls", "response_format", "top_p", "stop", "seed", "n", "presence_penalty", "frequency_penalty",
  "reasoning_effort", "user", "logprobs", "top_logprobs", "logit_bias", "metadata", "store", "service_tier",
];
const CHOICES = { auto: "auto", required: "any", none: "none" };
const MAX_TOKENS = 1024; // which Anthropic's API requires

// An image as a file; `number` is that of its constant.
class ImageFile {
  constructor(name, type, number = 0) {
    Object.assign(this, { name, type, number });
  }
}

// The request with its images as files: those that were chosen, and those of the log under names of their own.
function withFiles(request) {
  const files = [];
  const replace = (value) => {
    if (value instanceof ImageFile) return add(value.name, value.type);
    if (Array.isArray(value)) return value.map(replace);
    if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, replace(inner)]));
    const [, type] = (typeof value === "string" && DATA_URL.exec(value)) || [];
    return type ? add(`image-${files.length + 1}.${type.slice(6).split("+")[0]}`, type) : value;
  };
  const add = (name, type) => {
    files.push(new ImageFile(name, type, files.length + 1));
    return files.at(-1);
  };
  return { body: replace(request), files };
}

// -- Values -----------------------------------------------------------------------------------------

// A value as a literal; `words` are those of the language for null, true, false and an image.
function literal(value, words, indent) {
  if (value instanceof ImageFile) return words.image(value);
  if (value === null || typeof value === "boolean") return words[value];
  if (typeof value !== "object") return JSON.stringify(value);
  const inner = `${indent}${words.step}`;
  const items = Array.isArray(value)
    ? value.map((item) => literal(item, words, inner))
    : Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${literal(item, words, inner)}`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  return items.length ? `${open}\n${items.map((item) => `${inner}${item},\n`).join("")}${indent}${close}` : open + close;
}

const constant = ({ number }) => `IMAGE_${number}`;
const PYTHON = { null: "None", true: "True", false: "False", step: "    ", image: constant };
const JAVASCRIPT = { null: "null", true: "true", false: "false", step: "  ", image: constant };
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// -- curl -------------------------------------------------------------------------------------------

function asCurl({ body, files }, base) {
  const marks = new Map(files.map((file) => [`IMAGE-${Math.random()}`, file]));
  const markOf = (file) => [...marks].find(([, other]) => other === file)[0];
  const json = JSON.stringify(body, (name, value) => (value instanceof ImageFile ? markOf(value) : value), 2);
  const send = `curl ${base}/v1/chat/completions \\\n  -H "Authorization: Bearer $GATEWAY_KEY" \\\n  -H "Content-Type: application/json" \\\n`;
  if (!files.length) return `${send}  -d ${quoted(json)}`;
  const pieces = json.split(new RegExp(`(${[...marks.keys()].join("|").replaceAll(".", "\\.")})`)).map((piece) => {
    const file = marks.get(piece);
    if (!file) return `  printf %s ${quoted(piece)}`;
    return `  printf %s ${quoted(`data:${file.type};base64,`)}; base64 < ${quoted(file.name)} | tr -d '\\n'`;
  });
  return `# The images of the conversation are files in this folder.\n{\n${pieces.join("\n")}\n} | ${send}  --data-binary @-`;
}

// -- Python -----------------------------------------------------------------------------------------

function pythonFiles(files, valueOf) {
  const lines = files.map((file) => `${constant(file)} = ${valueOf(file, `base64.b64encode(Path(${JSON.stringify(file.name)}).read_bytes()).decode()`)}\n`);
  return files.length ? `# The images of the conversation are files in this folder.\n${lines.join("")}\n` : "";
}

function pythonCall(values) {
  return Object.entries(values).map(([name, value]) => `    ${name}=${literal(value, PYTHON, "    ")},\n`).join("");
}

const pythonImports = (files) => (files.length ? "import base64\nimport os\nfrom pathlib import Path\n" : "import os\n");

function asPython({ body, files }, base) {
  const [named, others] = [{}, {}];
  for (const [name, value] of Object.entries(body)) (SDK_PARAMETERS.includes(name) ? named : others)[name] = value;
  if (Object.keys(others).length) named.extra_body = others;
  const images = pythonFiles(files, ({ type }, data) => `${JSON.stringify(`data:${type};base64,`)} + ${data}`);
  return (
    `${pythonImports(files)}\nfrom openai import OpenAI\n\n${images}client = OpenAI(\n    base_url="${base}/v1",\n` +
    `    api_key=os.environ["GATEWAY_KEY"],\n)\nanswer = client.chat.completions.create(\n${pythonCall(named)})\n` +
    "print(answer.choices[0].message.content or answer.choices[0].message.tool_calls)"
  );
}

// -- Anthropic --------------------------------------------------------------------------------------

function jsonOr(text, other) {
  try {
    return JSON.parse(text);
  } catch {
    return other;
  }
}

function blockOf(part) {
  if (part.type === "text") return { type: "text", text: part.text };
  const url = part.image_url?.url;
  if (url instanceof ImageFile) return { type: "image", source: { type: "base64", media_type: url.type, data: url } };
  return url ? { type: "image", source: { type: "url", url } } : null; // no other part has a counterpart
}

function blocksOf(message) {
  if (message.role === "tool") return [{ type: "tool_result", tool_use_id: message.tool_call_id, content: textOf(message.content) }];
  const parts = typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content ?? [];
  const calls = (message.tool_calls ?? []).map(({ id, function: called }) => ({ type: "tool_use", id, name: called.name, input: jsonOr(called.arguments, {}) }));
  return [...parts.map(blockOf).filter((block) => block && block.text !== ""), ...calls];
}

// The messages in turns: what follows from the same side is one message.
function turnsOf(messages) {
  const merged = [];
  for (const message of messages) {
    const role = message.role === "assistant" ? "assistant" : "user";
    const blocks = blocksOf(message);
    if (merged.at(-1)?.role === role) merged.at(-1).content.push(...blocks);
    else if (blocks.length) merged.push({ role, content: blocks });
  }
  return merged;
}

function choiceOf(choice) {
  if (choice?.function) return { type: "tool", name: choice.function.name };
  return CHOICES[choice] && { type: CHOICES[choice] };
}

function anthropicBody({ model, messages, max_tokens, max_completion_tokens, temperature, top_p, top_k, stop, tools, tool_choice, response_format, ...others }) {
  const isSystem = ({ role }) => role === "system" || role === "developer";
  const schema = response_format?.json_schema?.schema;
  const values = {
    model,
    max_tokens: max_tokens ?? max_completion_tokens ?? MAX_TOKENS,
    system: messages.filter(isSystem).map(({ content }) => textOf(content)).join("\n\n") || undefined,
    messages: turnsOf(messages.filter((message) => !isSystem(message))),
    temperature,
    top_p,
    top_k,
    stop_sequences: stop === undefined ? undefined : [stop].flat(),
    tools: tools?.filter(({ function: called }) => called).map(({ function: { name, description, parameters } }) => ({ name, description, input_schema: parameters ?? { type: "object" } })),
    tool_choice: choiceOf(tool_choice),
    output_config: schema && { format: { type: "json_schema", schema } },
  };
  return { values: defined(values), lost: Object.keys(others) };
}

function asAnthropic({ body, files }, base) {
  const { values, lost } = anthropicBody(body);
  const note = lost.length ? `# Without ${lost.map((name) => JSON.stringify(name)).join(", ")}, which Anthropic's API does not have.\n` : "";
  return (
    `${pythonImports(files)}\nfrom anthropic import Anthropic\n\n${pythonFiles(files, (file, data) => data)}client = Anthropic(\n` +
    `    base_url="${base}",\n    api_key=os.environ["GATEWAY_KEY"],\n)\n${note}answer = client.messages.create(\n${pythonCall(values)})\nprint(answer.content)`
  );
}

// -- JavaScript -------------------------------------------------------------------------------------

function asJavaScript({ body, files }, base) {
  const lines = files.map((file) => `const ${constant(file)} = ${JSON.stringify(`data:${file.type};base64,`)} + readFileSync(${JSON.stringify(file.name)}).toString("base64");\n`);
  const images = files.length ? `import { readFileSync } from "node:fs";\n\n// The images of the conversation are files in this folder.\n${lines.join("")}\n` : "";
  return (
    `${images}const response = await fetch("${base}/v1/chat/completions", {\n  method: "POST",\n  headers: {\n` +
    '    Authorization: `Bearer ${process.env.GATEWAY_KEY}`,\n    "Content-Type": "application/json",\n  },\n' +
    `  body: JSON.stringify(${literal(body, JAVASCRIPT, "  ")}),\n});\nconst answer = await response.json();\nconsole.log(answer.choices?.[0].message ?? answer.error);`
  );
}

// -- All of them ------------------------------------------------------------------------------------

// Without members that are not set, which no program has.
function defined(value) {
  if (value instanceof ImageFile || value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(defined);
  return Object.fromEntries(Object.entries(value).filter(([, inner]) => inner !== undefined).map(([name, inner]) => [name, defined(inner)]));
}

function textOf(content) {
  if (typeof content === "string") return content;
  return (content ?? []).filter(({ type }) => type === "text").map(({ text }) => text).join("\n");
}

// The texts of all programs that send the request, by the ids of their elements.
function programs(request, base) {
  const parts = withFiles(defined(request));
  return { "as-curl": asCurl(parts, base), "as-python": asPython(parts, base), "as-anthropic": asAnthropic(parts, base), "as-javascript": asJavaScript(parts, base) };
}
