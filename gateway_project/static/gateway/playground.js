// The playground: a conversation with one model, or with two side by side, through the OpenAI-compatible API as any
// client has it. Each model goes on with its own answers. It may begin with the conversation of a log entry.
"use strict";

const form = document.getElementById("playground");
const answers = document.getElementById("answers");
const stopButton = form.querySelector("[data-stop]");
const resetButton = form.querySelector("[data-reset]");
const problem = form.querySelector("[data-problem]");
const attached = form.querySelector("[data-attached]");
const logged = JSON.parse(document.getElementById("conversation")?.textContent ?? "{}");
const UNITS = [[1e9, "B"], [1e6, "M"], [1e3, "k"]];
const ENTRY_TRIES = 8; // the log is written a moment after the answer
const SHOWN_IMAGE = /^data:image\/(png|jpeg|gif|webp);base64,/; // types that cannot run scripts
let running = null;
let beginning = logged.messages ?? []; // of all conversations: that of the log entry
let attachments = logged.attachments ?? []; // parts of the next message, besides the chosen images
let output = logged.output ?? {}; // what is said of the JSON schema: its name, whether it is strict
const threads = new Map(); // the messages of each column, by its key
const resultFields = new Map(); // the fields for the results of its calls, by the assistant's message

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

function moreParameters() {
  const more = jsonIn("more", "The object of other parameters") ?? {};
  if (typeof more !== "object" || Array.isArray(more)) throw new Error("The other parameters are not a JSON object.");
  return more;
}

function parameters() {
  const schema = jsonIn("schema", "The JSON schema");
  const own = {
    temperature: form.temperature.value === "" ? undefined : Number(form.temperature.value),
    max_tokens: form.max_tokens.value === "" ? undefined : Number(form.max_tokens.value),
    tools: jsonIn("tools", "The list of tools"),
    response_format: schema && { type: "json_schema", json_schema: { name: "answer", ...output, schema } },
  };
  return { ...moreParameters(), ...defined(own) };
}

function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(new Error(`${file.name} cannot be read.`));
    reader.readAsDataURL(file);
  });
}

// The user's next message with images at these addresses; none if the form has neither text nor image.
function question(urls) {
  const text = form.prompt.value;
  const parts = [...attachments, ...urls.map((url) => ({ type: "image_url", image_url: { url } }))];
  if (!parts.length) return text ? [{ role: "user", content: text }] : [];
  return [{ role: "user", content: [...(text ? [{ type: "text", text }] : []), ...parts] }];
}

// The models that are asked, each with the key of its conversation: the same model twice has two.
function columns() {
  const models = [form.model.value, form.second.value].filter(Boolean);
  return models.map((model, place) => ({ model, key: `${model}\n${place && models[0] === model ? 1 : 0}` }));
}

function messagesOf({ model, key }) {
  return threads.get(key) ?? threads.get(`${model}\n0`) ?? beginning;
}

// The results of the calls that a conversation ends with, as they are in their fields.
function resultsFor(messages) {
  const fields = resultFields.get(messages.at(-1)) ?? [];
  return fields.map(({ id, field }) => ({ role: "tool", tool_call_id: id, content: field.value }));
}

function nextMessages(column, asked) {
  const messages = messagesOf(column);
  return [...messages, ...resultsFor(messages), ...asked];
}

function body(model, messages) {
  const system = form.system.value ? [{ role: "system", content: form.system.value }] : [];
  return { ...parameters(), model, messages: [...system, ...messages] };
}

async function credential() {
  if (form.key.value === "other") return form.secret.value;
  const headers = { "X-CSRFToken": form.csrfmiddlewaretoken.value };
  const answer = await fetch(form.dataset.token, { method: "POST", headers, body: new URLSearchParams({ key: form.key.value }) });
  if (answer.status === 404) throw new Error("This key cannot be used any more. Choose another one.");
  if (!answer.ok) throw new Error("Your login has ended. Reload the page.");
  return (await answer.json()).token;
}

// Another key is typed, because the gateway stores only its digest.
function showSecret() {
  form.secret.required = form.key.value === "other";
  form.secret.closest("label").hidden = !form.secret.required;
}

// -- The request as code ----------------------------------------------------------------------------

function showCode() {
  const [column = { model: "", key: "" }] = columns();
  form.prompt.required = !attachments.length && !form.images.files.length && !resultsFor(messagesOf(column)).length;
  try {
    problem.hidden = true;
    const asked = question([...form.images.files].map((file) => new ImageFile(file.name, file.type)));
    const messages = nextMessages(column, asked);
    const request = body(column.model, messages.length ? messages : [{ role: "user", content: "" }]);
    for (const [id, text] of Object.entries(programs(request, form.dataset.base))) document.getElementById(id).textContent = text;
    document.getElementById("code").hidden = false;
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

const BOX = "bg-base-100 console-text p-3 rounded-default text-important dark:bg-base-800";
const BORDER = "border border-base-200 min-w-0 p-4 rounded-default dark:border-base-800";
const FIELD = "bg-white border border-base-300 console-mono px-3 py-2 rounded-default text-important dark:bg-base-900 dark:border-base-700";
const BUTTON = "border border-base-300 font-medium px-4 py-2 rounded-default text-important dark:border-base-700";

function addCard(row, model) {
  const card = element("section", BORDER);
  const text = element("div", "console-text text-important");
  const note = element("p", "mt-3 text-sm");
  text.dataset.answer = "";
  note.dataset.note = "";
  card.append(element("h2", "console-breaks font-semibold mb-2 text-important", model), text, note);
  row.append(card);
  return { card, text, note };
}

// A part of a message that is no text: an image with its data is shown, of others what they are.
function partOf(part) {
  const url = part.image_url?.url ?? "";
  if (!SHOWN_IMAGE.test(url)) return element("span", "block text-sm", part.type === "image_url" ? `Image: ${url.slice(0, 200)}` : `With ${part.type}`);
  const image = element("img", "block mt-2");
  Object.assign(image, { src: url, alt: "Image of the conversation", style: "max-height: 8rem" });
  return image;
}

function callText({ function: called }) {
  return `${called?.name ?? ""}(${called?.arguments ?? ""})`;
}

// A message as it is in the conversation: of the user, of a tool, or of the log.
function showMessage({ role, content, tool_calls: calls }) {
  const heading = role === "user" ? [] : [element("strong", "block text-sm", role === "tool" ? "Result of a tool" : `${role[0].toUpperCase()}${role.slice(1)}`)];
  const texts = [textOf(content), ...(calls ?? []).map(callText)].filter(Boolean).join("\n");
  const box = element("div", BOX);
  box.dataset.role = role;
  const others = Array.isArray(content) ? content.filter(({ type }) => type !== "text") : [];
  box.append(...heading, element("p", "", texts), ...others.map(partOf));
  answers.append(box);
}

// Fields for the results of the calls that a message ends with, and a button that sends them for these columns.
function askForResults(card, message, targets, values = {}) {
  const fields = message.tool_calls.map((call, place) => {
    const label = element("label", "flex flex-col gap-1 mt-3", `Result of ${call.function?.name ?? "the call"}${message.tool_calls.length > 1 ? ` (call ${place + 1})` : ""}`);
    const field = element("textarea", FIELD);
    field.rows = 3;
    field.value = values[call.id] ?? "";
    field.addEventListener("input", showCode);
    label.append(field);
    card.append(label);
    return { id: call.id, field };
  });
  const button = element("button", `${BUTTON} mt-3`, fields.length > 1 ? "Send results" : "Send result");
  button.type = "button";
  button.addEventListener("click", () => run(() => send(targets(), [])));
  card.append(button);
  resultFields.set(message, fields);
}

// What is attached to the next message, and the button that takes it away.
function showAttachments() {
  attached.hidden = !attachments.length;
  const button = element("button", BUTTON, "Remove");
  button.type = "button";
  button.addEventListener("click", () => ((attachments = []), showAttachments(), showCode(), form.prompt.focus()));
  attached.replaceChildren("From the log entry:", ...attachments.map(partOf), button);
}

// The conversation that the page begins with.
function showBeginning() {
  const last = beginning.at(-1);
  beginning.forEach(showMessage);
  if (!last?.tool_calls?.length || !logged.results || !Object.keys(logged.results).length) return;
  const card = element("section", BORDER);
  answers.append(card);
  askForResults(card, last, columns, logged.results);
}

function addRow() {
  const row = element("div", "gap-4 grid lg:grid-cols-2");
  answers.append(row);
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
      note.append(entry.cost ? ", " : "", cost);
      note.append(note.textContent.endsWith(".") ? " " : ". ", linkTo(entry.url, "Log entry"));
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
  for (const { index = 0, id, function: called = {} } of deltas ?? []) {
    calls[index] ??= { id: "", type: "function", function: { name: "", arguments: "" } };
    calls[index].id ||= id ?? "";
    calls[index].function.name += called.name ?? "";
    calls[index].function.arguments += called.arguments ?? "";
  }
}

function messageOf(words, calls) {
  const whole = calls.filter(Boolean); // a provider may number them as it likes
  return { role: "assistant", content: words || (whole.length ? null : ""), ...(whole.length ? { tool_calls: whole } : {}) };
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
    text.textContent = [words, ...calls.filter(Boolean).map(callText)].filter(Boolean).join("\n");
  }
  return { ...result, message: messageOf(words, calls) };
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
    attempts && `${attempts} ${attempts === 1 ? "attempt" : "attempts"}`,
  ];
  const served = [answer.headers.get("X-Svc-Provider"), answer.headers.get("X-Svc-Cache")].filter(Boolean).join(" ");
  const nodes = parts.filter(Boolean).flatMap((part) => [", ", part]);
  return [`${served}: `, ...nodes.slice(1)];
}

async function ask(row, column, request, token, signal) {
  const { card, text, note } = addCard(row, request.model);
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
    if (result.message.tool_calls) askForResults(card, result.message, () => [column]);
    return result.message;
  } catch (error) {
    if (error.name === "AbortError") note.textContent = "Stopped.";
    else fail(note, error.message);
    return undefined;
  } finally {
    if (requestId) linkEntry(note, requestId).catch(() => {}); // without a link where the network fails
  }
}

// The fields of results that were sent stay as they were sent.
function closeFields(messages) {
  for (const { field } of resultFields.get(messages.at(-1)) ?? []) {
    field.readOnly = true;
    field.closest("section").querySelector(":scope > button")?.remove();
  }
}

// Send the next message, and the results of tools that it follows, for these columns; whether one has answered.
async function send(targets, asked) {
  const conversations = targets.map((column) => nextMessages(column, asked));
  const requests = targets.map(({ model }, place) => body(model, conversations[place]));
  const token = await credential();
  asked.forEach(showMessage);
  const row = addRow();
  const replies = await Promise.all(requests.map((request, place) => ask(row, targets[place], request, token, running.signal)));
  const answered = targets.map((column, place) => ({ column, place })).filter(({ place }) => replies[place]);
  const former = answered.map(({ column }) => messagesOf(column));
  answered.forEach(({ column, place }) => threads.set(column.key, [...conversations[place], replies[place]]));
  former.forEach(closeFields);
  showCode();
  return answered.length > 0;
}

async function sendQuestion() {
  const urls = await Promise.all([...form.images.files].map(dataUrl));
  if (await send(columns(), question(urls))) {
    form.prompt.value = form.images.value = "";
    attachments = [];
    showAttachments();
    showCode();
  }
  form.prompt.focus();
}

// One thing is sent at a time: what is under way is stopped.
async function run(action) {
  running?.abort();
  running = new AbortController();
  stopButton.disabled = false;
  try {
    await action();
  } catch (error) {
    problem.textContent = error.message;
    problem.hidden = false;
  }
  stopButton.disabled = true;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  run(sendQuestion);
});
stopButton.addEventListener("click", () => running?.abort());
resetButton.addEventListener("click", () => {
  running?.abort();
  threads.clear();
  beginning = attachments = [];
  output = {};
  answers.replaceChildren();
  showAttachments();
  showCode();
  form.prompt.focus();
});
form.addEventListener("input", showCode);
form.key.addEventListener("change", showSecret);
form.images.hasChangeListener = true; // the theme's own expects a text field beside it, and fails without
showSecret();
showBeginning();
showAttachments();
showCode();
