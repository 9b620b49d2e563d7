"use strict";

// A button with data-copy="id" copies the text of that element.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  } catch {
    // Browsers have no clipboard without TLS: the text is selected, so that the user can copy it.
    getSelection().selectAllChildren(source);
    button.textContent = "Selected";
  }
});
