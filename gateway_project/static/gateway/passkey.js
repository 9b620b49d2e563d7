"use strict";

// A form with data-passkey="create" or "get" asks the browser for a passkey before it is sent.
const bytesOf = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
const textOf = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

function withBytes(options) {
  const result = { ...options, challenge: bytesOf(options.challenge) };
  if (options.user) result.user = { ...options.user, id: bytesOf(options.user.id) };
  for (const name of ["allowCredentials", "excludeCredentials"]) {
    if (options[name]) result[name] = options[name].map((one) => ({ ...one, id: bytesOf(one.id) }));
  }
  return result;
}

function asJson(credential) {
  const names = ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"];
  const present = names.filter((name) => credential.response[name]);
  const response = Object.fromEntries(present.map((name) => [name, textOf(credential.response[name])]));
  return JSON.stringify({ id: credential.id, rawId: textOf(credential.rawId), type: credential.type, response });
}

document.addEventListener("submit", async (event) => {
  const form = event.target.closest("[data-passkey]");
  if (!form) return;
  event.preventDefault();
  const problem = form.querySelector("[role=alert][hidden], [role=alert][data-own]");
  try {
    const publicKey = withBytes(JSON.parse(document.getElementById(form.dataset.options).textContent));
    const credential = await navigator.credentials[form.dataset.passkey]({ publicKey });
    form.elements.credential.value = asJson(credential);
    form.submit();
  } catch (error) {
    problem.dataset.own = "";
    problem.hidden = false;
    problem.textContent = navigator.credentials
      ? "The browser has made no passkey, or found none. Try again."
      : "Browsers know passkeys only on pages with TLS.";
  }
});
