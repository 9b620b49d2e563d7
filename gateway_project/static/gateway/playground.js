// The playground sends one prompt to one model or two, through the OpenAI-compatible API as any client does.
"use strict";

const form = document.getElementById("playground");
const answers = document.getElementById("answers");
const stopButton = form.querySelector("[data-stop]");
let running = null;

function body(model) {
  const messages = [];
  if (form.system.value) messages.push({ role: "system", content: form.system.value });
  messages.push({ role: "user", content: form.prompt.value });
  return { model, messages, stream: true };
}

function showCode() {
  const asked = { ...body(form.model.value), stream: false };
  const json = JSON.stringify(asked, null, 2);
  document.getElementById("as-curl").textContent =
    `curl ${form.dataset.base}/v1/chat/completions \\\n  -H "Authorization: Bearer $GATEWAY_KEY" \\\n` +
    `  -H "Content-Type: application/json" \\\n  -d '${json.replaceAll("'", "'\\''")}'`;
  document.getElementById("as-python").textContent =
    `import os\n\nfrom openai import OpenAI\n\nclient = OpenAI(\n    base_url="${form.dataset.base}/v1",\n` +
    `    api_key=os.environ["GATEWAY_KEY"],\n)\nanswer = client.chat.completions.create(\n    model=${JSON.stringify(asked.model)},\n` +
    `    messages=${JSON.stringify(asked.messages)},\n)\nprint(answer.choices[0].message.content)`;
}

async function credential() {
  if (form.key.value) return form.key.value;
  const answer = await fetch(form.dataset.token, {
    method: "POST",
    headers: { "X-CSRFToken": form.csrfmiddlewaretoken.value },
  });
  if (!answer.ok) throw new Error("Your login has ended. Reload the page.");
  return (await answer.json()).token;
}

function card(model) {
  const card = document.createElement("section");
  card.className = "border border-base-200 p-4 rounded-default dark:border-base-800";
  const title = document.createElement("h2");
  title.className = "font-semibold mb-2 text-important";
  title.textContent = model;
  const text = document.createElement("div");
  text.className = "console-text text-important";
  text.dataset.answer = "";
  const note = document.createElement("p");
  note.className = "mt-3 text-sm";
  note.dataset.note = "";
  card.append(title, text, note);
  answers.append(card);
  return { text, note };
}

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

async function ask(model, token, signal) {
  const { text, note } = card(model);
  const begun = performance.now();
  try {
    const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
    if (form.bypass.checked) headers["X-Svc-Cache"] = "bypass";
    const asked = { ...body(model), stream_options: { include_usage: true } };
    const answer = await fetch("/v1/chat/completions", { method: "POST", headers, body: JSON.stringify(asked), signal });
    if (!answer.ok) throw new Error((await answer.json()).error?.message ?? `Status ${answer.status}`);
    let first = null;
    let usage = null;
    for await (const event of events(answer.body)) {
      if (event.error) throw new Error(event.error.message);
      first ??= performance.now() - begun;
      usage = event.usage ?? usage;
      text.textContent += event.choices?.[0]?.delta?.content ?? "";
    }
    const took = performance.now() - begun;
    const tokens = usage ? `, ${usage.prompt_tokens} input tokens, ${usage.completion_tokens} output tokens` : "";
    const served = `${answer.headers.get("X-Svc-Provider") ?? ""} ${answer.headers.get("X-Svc-Cache") ?? ""}`;
    note.textContent = `${served}: first token after ${Math.round(first ?? took)} ms, complete after ${Math.round(took)} ms${tokens}`;
  } catch (error) {
    note.textContent = error.name === "AbortError" ? "Stopped." : error.message;
  }
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  running?.abort();
  running = new AbortController();
  answers.replaceChildren();
  stopButton.disabled = false;
  try {
    const token = await credential();
    const models = [form.model.value, form.second.value].filter(Boolean);
    await Promise.all(models.map((model) => ask(model, token, running.signal)));
  } catch (error) {
    card("Nothing was sent").note.textContent = error.message;
  }
  stopButton.disabled = true;
});
stopButton.addEventListener("click", () => running?.abort());
form.addEventListener("input", showCode);
showCode();
