// Accessibility that the theme lacks, for screen readers and keyboards.
"use strict";

// Select2 creates boxes without a label: they get the label of their field.
function nameBoxes() {
  for (const box of document.querySelectorAll(".select2-search__field:not([aria-label]), .select2-selection--single:not([aria-label]), .select2-selection--single [role=textbox]:not([aria-label])")) {
    const select = box.closest(".select2-container")?.previousElementSibling;
    const label = select?.id && document.querySelector(`label[for="${select.id}"]`);
    box.setAttribute("aria-label", label ? label.textContent.trim() : "Search");
    box.removeAttribute("aria-labelledby");
  }
  // Their selected values have the role of a list, but contain elements that no list may contain.
  for (const list of document.querySelectorAll("ul.select2-selection__rendered:not([role])")) list.setAttribute("role", "group");
  for (const item of document.querySelectorAll("ul.select2-selection__rendered > li:not([role=none])")) item.setAttribute("role", "none");
}

// Each landmark needs a name of its own.
function nameLandmarks() {
  document.querySelector("#nav-sidebar-inner:not([aria-label])")?.setAttribute("aria-label", "Console");
}

// Elements of the theme that only react to clicks react to the keyboard too: side bar, filters, menus, switches.
const CLICKED = "span[x-on\\:click], div.cursor-pointer[x-on\\:click], a[x-on\\:click]:not([href])";
const CALLED = { sidebar: "Side bar", openTheme: "Theme", showPassword: "Show the password", RelatedWidget: "More" };
// The element that gets the focus when one of them has opened.
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

new MutationObserver(() => (nameBoxes(), nameLandmarks(), takeKeys())).observe(document.documentElement, { childList: true, subtree: true });

// Search terms are part of the address, whose length the server limits. The field shows the message, because the
// response to a longer address does not come from the console.
const LONGEST_ADDRESS = 4000;
const LONGEST_LABEL = 24;

document.addEventListener("submit", (event) => {
  const form = event.target;
  const address = new URLSearchParams(new FormData(form)).toString();
  if (form.method !== "get" || location.pathname.length + address.length < LONGEST_ADDRESS) return;
  event.preventDefault();
  const fields = [...form.querySelectorAll("input")].filter((field) => field.checkVisibility());
  const longest = fields.reduce((one, other) => (other.value.length > one.value.length ? other : one));
  longest.setCustomValidity("This search term is too long.");
  longest.reportValidity();
  longest.addEventListener("input", () => longest.setCustomValidity(""), { once: true });
});

// Charts of whole numbers have no marks between whole numbers.
const whole = ({ chart }) => chart.data.datasets.every((set) => set.data.every(Number.isInteger));
Chart.defaults.scales.linear.ticks.precision = (context) => (whole(context) ? 0 : undefined);
// Sums of fractions are inexact: an axis would say 0.00009999999999999999.
Chart.defaults.scales.linear.afterBuildTicks = ({ ticks }) => ticks.forEach((tick) => (tick.value = Number(tick.value.toPrecision(9))));
// Small amounts are written out: 0.0000005 and not 5e-7 on an axis, and not 0 in the box at a bar.
Chart.defaults.scales.linear.ticks.format = { maximumSignificantDigits: 9 };
const decimal = new Intl.NumberFormat("en", Chart.defaults.scales.linear.ticks.format);
Chart.defaults.scales.linear.afterTickToLabelConversion = ({ ticks }) =>
  ticks.forEach((tick) => (tick.label = String(tick.label).replace(String(tick.value), decimal.format(tick.value))));

// No amount is below zero: without data an axis would begin at -1.
Chart.defaults.scales.linear.min = 0;
// Long names would run out of the chart; the box at a bar has the whole name.
const shortLabel = (name) => (name.length > LONGEST_LABEL ? `${name.slice(0, LONGEST_LABEL - 1)}…` : name);
Chart.defaults.scales.category.ticks.callback = function (value) {
  return shortLabel(this.getLabelForValue(value));
};

// A click on what a chart shows of a name opens the page of that name.
const pageOf = (chart, shown) => shown.length && chart.data.pages?.[shown[0].index];
Chart.defaults.onClick = (event, shown, chart) => {
  const page = pageOf(chart, shown);
  if (page) location.assign(page);
};
Chart.defaults.onHover = (event, shown, chart) => (chart.canvas.style.cursor = pageOf(chart, shown) ? "pointer" : "");

// An element with data-preview="address" shows the server's preview of the form around it, updated with each input.
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
  // Select2 notifies only jQuery.
  window.django?.jQuery(form).on("change", later);
  ask();
}

addEventListener("DOMContentLoaded", () => document.querySelectorAll("[data-preview]").forEach(keepPreview));

// The theme gives everything that scrolls the same name, and two of them are on the page of a list.
addEventListener("load", () => {
  for (const box of document.querySelectorAll(".simplebar-content-wrapper")) {
    const isRows = box.querySelector("#result_list");
    box.setAttribute("aria-label", box.closest("#nav-sidebar-apps") ? "Side bar" : isRows ? "Rows" : "Filters");
  }
});

// An element with data-refresh="milliseconds" reloads its content while the page is visible, until data-ended is in it.
addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll("[data-refresh]")) {
    const timer = setInterval(async () => {
      if (document.hidden) return;
      const answer = await fetch(location.href, { headers: { "Accept-Part": "rows" } });
      if (answer.redirected) location.reload(); // the login has ended
      else if (answer.ok) element.innerHTML = await answer.text();
      if (element.querySelector("[data-ended]")) clearInterval(timer);
    }, Number(element.dataset.refresh));
  }
});

// A box with data-every="name" checks all boxes of this name in its form, or none.
addEventListener("DOMContentLoaded", () => {
  for (const box of document.querySelectorAll("[data-every]")) {
    const boxes = () => [...box.form.elements].filter((other) => other.name === box.dataset.every);
    box.addEventListener("change", () => boxes().forEach((other) => (other.checked = box.checked)));
    box.form.addEventListener("change", () => (box.checked = boxes().every((other) => other.checked)));
  }
});

// In a histogram a period can be drawn: from the bar where the pointer goes down to the one where it goes up, or with
// Shift and the arrow keys. Arrow keys alone go from bar to bar; Enter opens the period.
addEventListener("DOMContentLoaded", () => {
  for (const figure of document.querySelectorAll("[data-histogram]")) {
    const bars = [...figure.querySelectorAll("a")];
    let first = -1;
    let last = -1;
    let isPressed = false;
    const barAt = (event) => {
      const box = figure.querySelector("svg").getBoundingClientRect();
      const place = Math.floor(((event.clientX - box.left) / box.width) * bars.length);
      return Math.min(Math.max(place, 0), bars.length - 1);
    };
    const show = () => bars.forEach((bar, place) => bar.classList.toggle("console-drawn", first >= 0 && place >= Math.min(first, last) && place <= Math.max(first, last)));
    figure.addEventListener("dragstart", (event) => event.preventDefault());
    figure.addEventListener("pointerdown", (event) => {
      if (event.button || !event.target.closest("svg")) return;
      first = last = barAt(event);
      isPressed = true;
    });
    addEventListener("pointermove", (event) => isPressed && ((last = barAt(event)), show()));
    addEventListener("pointerup", () => isPressed && open());
    figure.addEventListener("keydown", (event) => {
      const at = bars.indexOf(document.activeElement);
      const next = at + ({ ArrowLeft: -1, ArrowRight: 1 }[event.key] || 0);
      if (event.key === "Enter" && first >= 0) {
        event.preventDefault();
        open();
      }
      if (at < 0 || next === at || !bars[next]) return;
      event.preventDefault();
      first = event.shiftKey ? (first < 0 ? at : first) : -1;
      last = next;
      bars[at].setAttribute("tabindex", "-1");
      bars[next].setAttribute("tabindex", "0");
      bars[next].focus();
      show();
    });
    const open = () => {
      const [from, to] = [Math.min(first, last), Math.max(first, last)];
      first = -1;
      isPressed = false;
      if (from < 0 || from === to) return show(); // the bar is a link
      const query = new URLSearchParams(location.search);
      ["p", "e"].forEach((name) => query.delete(name));
      const ends = { from: bars[from].dataset.start, to: bars[to].dataset.end };
      for (const [side, moment] of Object.entries(ends))
        moment.split("T").forEach((text, part) => query.set(`timestamp_${side}_${part}`, text));
      location.search = query.toString();
    };
  }
});

// A row with a handle (data-move) is dragged before or after another of its kind: as its form's buttons, without a pointer.
addEventListener("DOMContentLoaded", () => {
  const table = document.querySelector("#result_list:has([data-move])");
  if (!table) return;
  let handle = null;
  const targetOf = (event) => {
    const row = event.target.closest("tbody");
    const other = row?.querySelector("[data-move]");
    if (!handle || !other || other === handle || other.dataset.kind !== handle.dataset.kind) return null;
    const box = row.getBoundingClientRect();
    return { row, other, side: event.clientY < box.top + box.height / 2 ? "before" : "after" };
  };
  const mark = (target) => {
    for (const row of table.querySelectorAll("tbody")) {
      row.classList.toggle("console-drop-before", target?.row === row && target.side === "before");
      row.classList.toggle("console-drop-after", target?.row === row && target.side === "after");
    }
  };
  table.addEventListener("dragstart", (event) => {
    handle = event.target.closest?.("[data-move]") ?? null;
    if (!handle) return;
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", handle.dataset.move);
    event.dataTransfer.setDragImage(handle.closest("tr"), 0, 0);
  });
  table.addEventListener("dragover", (event) => {
    const target = targetOf(event);
    if (target) event.preventDefault();
    mark(target);
  });
  table.addEventListener("dragend", () => (mark(null), (handle = null)));
  table.addEventListener("drop", (event) => {
    const target = targetOf(event);
    if (!target) return;
    event.preventDefault();
    const button = handle.closest("tr").querySelector("button[name=move]").cloneNode();
    button.value = `${handle.dataset.move}-${target.side}-${target.other.dataset.move}`;
    button.hidden = true;
    const form = document.querySelector("#changelist-form");
    form.append(button);
    form.requestSubmit(button);
  });
});
