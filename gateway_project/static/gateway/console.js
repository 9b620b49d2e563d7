// What the theme leaves undone for people who do not see the page.
"use strict";

// Select2 makes boxes without a name: they get that of the field that they belong to.
function nameBoxes() {
  for (const box of document.querySelectorAll(".select2-search__field:not([aria-label]), .select2-selection--single:not([aria-label]), .select2-selection--single [role=textbox]:not([aria-label])")) {
    const select = box.closest(".select2-container")?.previousElementSibling;
    const label = select?.id && document.querySelector(`label[for="${select.id}"]`);
    box.setAttribute("aria-label", label ? label.textContent.trim() : "Search");
    box.removeAttribute("aria-labelledby");
  }
  // Their chosen values pretend to be a list, and hold what no list may.
  for (const list of document.querySelectorAll("ul.select2-selection__rendered:not([role])")) list.setAttribute("role", "group");
  for (const item of document.querySelectorAll("ul.select2-selection__rendered > li:not([role=none])")) item.setAttribute("role", "none");
}

// What takes clicks alone takes the keyboard too: side bar, filters, menus and switches of the theme.
const CLICKED = "span[x-on\\:click], div.cursor-pointer[x-on\\:click], a[x-on\\:click]:not([href])";
const CALLED = { sidebar: "Side bar", openTheme: "Theme", showPassword: "Show the password", RelatedWidget: "More" };
// Where the keyboard goes on, once it is open.
const OPENED = { sidebarMobile: "#nav-sidebar a", filterOpen: "#changelist-filter :is(input, select, a, button)", openUserLinks: "#logout-form button" };

function takeKeys() {
  for (const element of document.querySelectorAll(CLICKED)) {
    if (element.hasAttribute("tabindex") || element.querySelector("a, button, input")) continue;
    const does = element.getAttribute("x-on:click");
    element.tabIndex = 0;
    element.setAttribute("role", "button");
    for (const [part, name] of Object.entries(CALLED)) if (does.includes(part)) element.setAttribute("aria-label", name);
  }
}

document.addEventListener("keydown", (event) => {
  if (!["Enter", " "].includes(event.key) || !event.target.matches(CLICKED)) return;
  event.preventDefault();
  event.target.click();
  const does = event.target.getAttribute("x-on:click");
  for (const [part, first] of Object.entries(OPENED))
    if (does.includes(part)) setTimeout(() => [...document.querySelectorAll(first)].find((found) => found.checkVisibility())?.focus(), 200);
});

new MutationObserver(() => (nameBoxes(), takeKeys())).observe(document.documentElement, { childList: true, subtree: true });

// What is looked for stands in the address, of which the server reads so much and no more. The field says so: whoever
// answers instead is not the console.
const LONGEST_ADDRESS = 4000;

document.addEventListener("submit", (event) => {
  const form = event.target;
  const address = new URLSearchParams(new FormData(form)).toString();
  if (form.method !== "get" || location.pathname.length + address.length < LONGEST_ADDRESS) return;
  event.preventDefault();
  const fields = [...form.querySelectorAll("input")].filter((field) => field.checkVisibility());
  const longest = fields.reduce((one, other) => (other.value.length > one.value.length ? other : one));
  longest.setCustomValidity("This is too long to be looked for.");
  longest.reportValidity();
  longest.addEventListener("input", () => longest.setCustomValidity(""), { once: true });
});

// What is counted has no half: charts of whole numbers have no marks between those.
const whole = ({ chart }) => chart.data.datasets.every((set) => set.data.every(Number.isInteger));
Chart.defaults.scales.linear.ticks.precision = (context) => (whole(context) ? 0 : undefined);

// A button with data-copy="id" copies the text of that element.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  } catch {
    // Without TLS browsers offer no clipboard: the text is selected, for the keyboard to copy.
    getSelection().selectAllChildren(source);
    button.textContent = "Selected";
  }
});

// An element with data-preview="address" shows what the server says of the form around it, as it is filled in.
function keepPreview(element) {
  const form = element.closest("form");
  let waiting = 0;
  let latest = 0;
  const ask = async () => {
    const number = ++latest;
    const fields = new URLSearchParams(new FormData(form));
    fields.delete("csrfmiddlewaretoken");
    const answer = await fetch(`${element.dataset.preview}&${fields}`, { headers: { Accept: "text/html" } });
    if (answer.redirected) location.reload(); // the login has ended
    else if (answer.ok && number === latest) element.innerHTML = await answer.text();
  };
  const later = () => {
    clearTimeout(waiting);
    waiting = setTimeout(ask, 300);
  };
  form.addEventListener("input", later);
  form.addEventListener("change", later);
  // Select2 tells jQuery alone.
  window.django?.jQuery(form).on("change", later);
  ask();
}

addEventListener("DOMContentLoaded", () => document.querySelectorAll("[data-preview]").forEach(keepPreview));

// An element with data-refresh="milliseconds" asks for its own content anew, while the page is looked at.
addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll("[data-refresh]")) {
    setInterval(async () => {
      if (document.hidden) return;
      const answer = await fetch(location.href, { headers: { "Accept-Part": "rows" } });
      if (answer.redirected) location.reload(); // the login has ended
      else if (answer.ok) element.innerHTML = await answer.text();
    }, Number(element.dataset.refresh));
  }
});
