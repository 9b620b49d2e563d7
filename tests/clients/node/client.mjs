// One request with OpenAI's SDK for node: `node client.mjs NAME MODEL`; what the test needs of the answer, as JSON.
// The address and the key come from OPENAI_BASE_URL and OPENAI_API_KEY, where the SDK itself looks for them.
import OpenAI from "openai";

const [name, model] = process.argv.slice(2);
const client = new OpenAI({ maxRetries: 0, timeout: Number(process.env.TIMEOUT_MS ?? 20000) });
const messages = [{ role: "user", content: "What is the capital of Portugal?" }];
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = [{ type: "function", function: { name: "weather", parameters } }];
const question = { model, input: messages[0].content, max_output_tokens: 4096 };
const asked = { model, messages, max_tokens: 4096 };

function callsOf(message) {
  return message.tool_calls.map((call) => [call.function.name, JSON.parse(call.function.arguments)]);
}

const requests = {
  async chat() {
    const answer = await client.chat.completions.create(asked);
    return { text: answer.choices[0].message.content, output: answer.usage.completion_tokens };
  },
  async stream() {
    let text = "";
    for await (const chunk of await client.chat.completions.create({ ...asked, stream: true })) {
      text += chunk.choices[0]?.delta?.content ?? "";
    }
    return { text };
  },
  async tools() {
    const first = (await client.chat.completions.create({ ...asked, tools })).choices[0].message;
    const results = first.tool_calls.map((call) => ({ role: "tool", tool_call_id: call.id, content: "20 degrees" }));
    const answer = await client.chat.completions.create({ ...asked, tools, messages: [...messages, first, ...results] });
    return { calls: callsOf(first), text: answer.choices[0].message.content };
  },
  async toolStream() {
    const stream = client.chat.completions.stream({ ...asked, tools });
    return { calls: callsOf((await stream.finalChatCompletion()).choices[0].message) };
  },
  async responses() {
    const answer = await client.responses.create(question);
    return { text: answer.output_text, status: answer.status };
  },
  async responsesStream() {
    const answer = await client.responses.stream(question).finalResponse();
    return { text: answer.output_text, status: answer.status };
  },
  async embeddings() {
    const answer = await client.embeddings.create({ model, input: ["a", "b"] });
    return { vectors: answer.data.map((item) => item.embedding) };
  },
  async models() {
    const names = [];
    for await (const found of client.models.list()) names.push(found.id);
    return { names };
  },
};

try {
  console.log(JSON.stringify(await requests[name]()));
} catch (error) {
  console.log(JSON.stringify({ error: error.constructor.name, status: error.status, code: error.code, message: error.message }));
}
