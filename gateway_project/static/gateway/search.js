// Ctrl K opens the search over the page: it shows results while one types, the arrow keys move through them.
"use strict";

const SEARCH_PATH = "/admin/find/";
const WAIT_MS = 200;

function openSearch() {
  const present = document.querySelector("dialog.console-search");
  if (present) return present.showModal();
  const dialog = document.createElement("dialog");
  dialog.className = "console-search";
  dialog.setAttribute("aria-label", "Search");
  dialog.innerHTML = '<input type="search" aria-label="Name, id, request id or a whole API key" placeholder="Search" autocomplete="off" maxlength="200"><div aria-live="polite"></div>';
  document.body.append(dialog);
  const [field, results] = dialog.children;
  let waiting = 0;
  let latest = 0;
  const ask = async () => {
    const number = ++latest;
    const body = new URLSearchParams({ text: field.value, csrfmiddlewaretoken: document.querySelector("[name=csrfmiddlewaretoken]").value });
    const answer = await fetch(SEARCH_PATH, { method: "POST", body, headers: { "Accept-Part": "rows" } });
    if (answer.redirected) location.reload(); // the login has ended
    else if (answer.ok && number === latest) results.innerHTML = await answer.text();
  };
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(ask, WAIT_MS);
  });
  dialog.addEventListener("keydown", (event) => moveThrough(event, [field, ...results.querySelectorAll("a")]));
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.showModal();
}

function moveThrough(event, places) {
  const at = places.indexOf(document.activeElement);
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) {
    event.preventDefault();
    places[Math.min(Math.max(at + step, 0), places.length - 1)].focus();
  } else if (event.key === "Enter" && at === 0 && places[1]) places[1].click();
}

document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey)) return;
  if (!document.querySelector("#nav-sidebar")) return; // the sign-in
  event.preventDefault();
  openSearch();
});
