// The playground: a conversation with one model, or with two side by side, through the OpenAI-compatible API as any
// client has it. Each model goes on with its own answers.
"use strict";

const form = document.getElementById("playground");
const answers = document.getElementById("answers");
const stopButton = form.querySelector("[data-stop]");
const resetButton = form.querySelector("[data-reset]");
const problem = form.querySelector("[data-problem]");
const UNITS = [[1e9, "B"], [1e6, "M"], [1e3, "k"]];
const ENTRY_TRIES = 8; // the log is written a moment after the answer
let running = null;
let turns = []; // {content, replies: [{model, text}]}, a reply for each column

// -- The request ------------------------------------------------------------------------------------

function jsonIn(name, label) {
  const text = form[name].value.trim();
  if (!text) return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${label} is not JSON: ${error.message}`);
  }
}

function parameters() {
  const schema = jsonIn("schema", "The JSON schema");
  return {
    temperature: form.temperature.value === "" ? undefined : Number(form.temperature.value),
    max_tokens: form.max_tokens.value === "" ? undefined : Number(form.max_tokens.value),
    tools: jsonIn("tools", "The list of tools"),
    response_format: schema && { type: "json_schema", json_schema: { name: "answer", schema } },
  };
}

function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(new Error(`${file.name} cannot be read.`));
    reader.readAsDataURL(file);
  });
}

async function prompt() {
  const text = form.prompt.value;
  const images = await Promise.all([...form.images.files].map(dataUrl));
  if (!images.length) return text;
  return [{ type: "text", text }, ...images.map((url) => ({ type: "image_url", image_url: { url } }))];
}

function replyIn(turn, model, column) {
  const sameColumn = turn.replies[column];
  return (sameColumn?.model === model ? sameColumn : turn.replies.find((reply) => reply.model === model))?.text;
}

function body(model, content, column = 0) {
  const messages = form.system.value ? [{ role: "system", content: form.system.value }] : [];
  for (const turn of turns) {
    const text = replyIn(turn, model, column);
    if (text === undefined) continue; // the model was not asked, or failed
    messages.push({ role: "user", content: turn.content }, { role: "assistant", content: text });
  }
  messages.push({ role: "user", content });
  return { model, messages, ...parameters() };
}

async function credential() {
  if (form.key.value) return form.key.value;
  const headers = { "X-CSRFToken": form.csrfmiddlewaretoken.value };
  const answer = await fetch(form.dataset.token, { method: "POST", headers });
  if (!answer.ok) throw new Error("Your login has ended. Reload the page.");
  return (await answer.json()).token;
}

// -- The request as code ----------------------------------------------------------------------------

function asPython(value, indent = "    ") {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const inner = `${indent}    `;
  const items = Array.isArray(value)
    ? value.map((item) => asPython(item, inner))
    : Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${asPython(item, inner)}`);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  return items.length ? `${open}\n${items.map((item) => `${inner}${item},\n`).join("")}${indent}${close}` : open + close;
}

function showCode() {
  try {
    problem.hidden = true;
    const request = body(form.model.value, form.prompt.value);
    const json = JSON.stringify(request, null, 2);
    document.getElementById("as-curl").textContent =
      `curl ${form.dataset.base}/v1/chat/completions \\\n  -H "Authorization: Bearer $GATEWAY_KEY" \\\n` +
      `  -H "Content-Type: application/json" \\\n  -d '${json.replaceAll("'", "'\\''")}'`;
    const entries = Object.entries(request).filter(([, value]) => value !== undefined);
    document.getElementById("as-python").textContent =
      `import os\n\nfrom openai import OpenAI\n\nclient = OpenAI(\n    base_url="${form.dataset.base}/v1",\n` +
      `    api_key=os.environ["GATEWAY_KEY"],\n)\nanswer = client.chat.completions.create(\n` +
      entries.map(([name, value]) => `    ${name}=${asPython(value)},\n`).join("") +
      ")\nprint(answer.choices[0].message.content)";
  } catch (error) {
    problem.textContent = error.message;
    problem.hidden = false;
  }
}

// -- The conversation on the page -------------------------------------------------------------------

function element(tag, className, text = "") {
  const node = document.createElement(tag);
  node.className = className;
  node.textContent = text;
  return node;
}

function addCard(row, model) {
  const card = element("section", "border border-base-200 min-w-0 p-4 rounded-default dark:border-base-800");
  const text = element("div", "console-text text-important");
  const note = element("p", "mt-3 text-sm");
  text.dataset.answer = "";
  note.dataset.note = "";
  card.append(element("h2", "console-breaks font-semibold mb-2 text-important", model), text, note);
  row.append(card);
  return { text, note };
}

function addTurn(content) {
  const text = typeof content === "string" ? content : content[0].text;
  const images = typeof content === "string" ? 0 : content.length - 1;
  const message = element("p", "bg-base-100 console-text p-3 rounded-default text-important dark:bg-base-800", text);
  if (images) message.append(element("span", "block text-sm", images === 1 ? "with an image" : `with ${images} images`));
  const row = element("div", "gap-4 grid lg:grid-cols-2");
  answers.append(message, row);
  return row;
}

function fail(note, message) {
  note.className = "console-problem mt-3 px-3 py-2 rounded-default text-sm";
  note.setAttribute("role", "alert");
  note.textContent = message;
}

function linkTo(address, text) {
  const link = element("a", "font-medium underline", text);
  link.href = address;
  return link;
}

async function linkEntry(note, requestId) {
  const values = new URLSearchParams({ request: requestId });
  for (let attempt = 0; attempt < ENTRY_TRIES; attempt += 1) {
    const answer = await fetch(`${form.dataset.entry}?${values}`);
    const entry = answer.ok ? await answer.json() : null;
    if (entry?.url) {
      const cost = element("span", "", entry.cost);
      cost.title = entry.exactCost;
      note.append(entry.cost ? ", " : "", cost, ". ", linkTo(entry.url, "Log entry"));
      if (note.getAttribute("role") === "alert") note.append(", ", linkTo(entry.explanation, "Explain"));
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

// -- Sending ----------------------------------------------------------------------------------------

async function* events(stream) {
  let rest = "";
  for await (const piece of stream.pipeThrough(new TextDecoderStream())) {
    const parts = (rest + piece).split(/\r?\n\r?\n/);
    rest = parts.pop();
    for (const part of parts) {
      const data = part.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim()).join("\n");
      if (data && data !== "[DONE]") yield JSON.parse(data);
    }
  }
}

function addCalls(calls, deltas) {
  for (const { index = 0, function: called = {} } of deltas ?? []) {
    calls[index] ??= { name: "", input: "" };
    calls[index].name += called.name ?? "";
    calls[index].input += called.arguments ?? "";
  }
}

async function read(answer, text, begun) {
  const result = { first: null, usage: null };
  const calls = [];
  let words = "";
  for await (const event of events(answer.body)) {
    if (event.error) throw new Error(event.error.message);
    result.first ??= performance.now() - begun;
    result.usage = event.usage ?? result.usage;
    const delta = event.choices?.[0]?.delta ?? {};
    words += delta.content ?? "";
    addCalls(calls, delta.tool_calls);
    text.textContent = [words, ...calls.map((call) => `${call.name}(${call.input})`)].filter(Boolean).join("\n");
  }
  return result;
}

function short(count) {
  const unit = UNITS.find(([size]) => count >= size - size / 20000); // it is rounded up to one of these
  return unit ? `${Math.max(count / unit[0], 1).toFixed(1)}${unit[1]}` : `${count}`;
}

// A number of tokens as the console shows it everywhere: short, and exact on hover.
function tokens(count, kind) {
  const node = element("span", "", `${short(count)} ${kind} tokens`);
  node.title = `${count.toLocaleString("en")} ${kind} tokens`;
  return node;
}

function summary(answer, { first, usage }, took) {
  const attempts = Number(answer.headers.get("X-Svc-Attempts") ?? 0);
  const parts = [
    `first token after ${Math.round(first ?? took)} ms`,
    `complete after ${Math.round(took)} ms`,
    usage && tokens(usage.prompt_tokens, "input"),
    usage && tokens(usage.completion_tokens, "output"),
    attempts > 1 && `${attempts} attempts`,
  ];
  const served = [answer.headers.get("X-Svc-Provider"), answer.headers.get("X-Svc-Cache")].filter(Boolean).join(" ");
  const nodes = parts.filter(Boolean).flatMap((part) => [", ", part]);
  return [`${served}: `, ...nodes.slice(1)];
}

async function ask(row, request, token, signal) {
  const { text, note } = addCard(row, request.model);
  const begun = performance.now();
  let requestId = null;
  try {
    const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
    if (form.bypass.checked) headers["X-Svc-Cache"] = "bypass";
    const streamed = JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } });
    const answer = await fetch("/v1/chat/completions", { method: "POST", headers, body: streamed, signal });
    requestId = answer.headers.get("X-Svc-Request-ID");
    if (!answer.ok) throw new Error((await answer.json()).error?.message ?? `Status ${answer.status}`);
    const result = await read(answer, text, begun);
    note.append(...summary(answer, result, performance.now() - begun));
    return text.textContent;
  } catch (error) {
    if (error.name === "AbortError") note.textContent = "Stopped.";
    else fail(note, error.message);
    return undefined;
  } finally {
    if (requestId) linkEntry(note, requestId).catch(() => {}); // without a link where the network fails
  }
}

async function send() {
  const content = await prompt();
  const models = [form.model.value, form.second.value].filter(Boolean); // may be the same one twice
  const requests = models.map((model, column) => body(model, content, column));
  const token = await credential();
  const row = addTurn(content);
  const replies = await Promise.all(requests.map((request) => ask(row, request, token, running.signal)));
  turns.push({ content, replies: models.map((model, column) => ({ model, text: replies[column] })) });
  if (replies.some((reply) => reply !== undefined)) form.prompt.value = form.images.value = "";
  form.prompt.focus();
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  running?.abort();
  running = new AbortController();
  stopButton.disabled = false;
  try {
    await send();
  } catch (error) {
    problem.textContent = error.message;
    problem.hidden = false;
  }
  stopButton.disabled = true;
});
stopButton.addEventListener("click", () => running?.abort());
resetButton.addEventListener("click", () => {
  running?.abort();
  turns = [];
  answers.replaceChildren();
  showCode();
  form.prompt.focus();
});
form.addEventListener("input", showCode);
showCode();
