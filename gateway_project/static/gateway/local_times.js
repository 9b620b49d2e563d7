// Times in UTC get the browser's own time beside them, with its date where that is another one.
"use strict";

const NARROW = matchMedia("(max-width: 63.99rem)"); // where a row has two lines: without seconds

// A time of today has no date where a row has two lines: the user has the room.
function shorten(element) {
  const [date, time] = element.textContent.split(" ");
  if (!time || date !== new Date().toISOString().slice(0, 10)) return;
  element.title = element.textContent;
  element.textContent = time;
}

// A time of the browser, with its date where that is not the one in UTC.
function localText(moment, seconds) {
  const date = moment.getDate() === moment.getUTCDate() ? {} : { day: "numeric", month: "short" };
  return `${moment.toLocaleString([], { ...date, hour: "2-digit", minute: "2-digit", ...seconds })} local`;
}

function addLocalTime(element) {
  const moment = new Date(element.dateTime);
  if (!moment.getTimezoneOffset()) return;
  const isShort = NARROW.matches && element.closest("#result_list");
  const seconds = /:\d\d:\d\d/.test(element.textContent) && !isShort ? { second: "2-digit" } : {};
  const local = document.createElement("span");
  local.className = "console-local";
  if (NARROW.matches && element.closest(":is(.model-logentry, .model-auditentry) #result_list")) shorten(element);
  local.textContent = localText(moment, seconds);
  element.append(" ", local);
}

function addLocalTimes() {
  document.querySelectorAll("time[datetime$=Z]:not(:has(.console-local))").forEach(addLocalTime);
}

// The title of a bar of the histogram, which has a time unless it is one of a day.
function addLocalTitle(bar) {
  const moment = new Date(`${bar.dataset.start}Z`), title = bar.querySelector("title");
  if (!moment.getTimezoneOffset()) return;
  title.textContent = title.textContent.replace(/:\d\d UTC/, (time) => `${time} (${localText(moment)})`);
  bar.setAttribute("aria-label", title.textContent);
}

addEventListener("DOMContentLoaded", () => {
  addLocalTimes();
  document.querySelectorAll("[data-histogram] a[data-start]").forEach(addLocalTitle);
  new MutationObserver(addLocalTimes).observe(document.body, { childList: true, subtree: true });
});
