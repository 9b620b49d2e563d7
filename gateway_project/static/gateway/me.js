"use strict";

// Dark as the system is, unless the console's switch chose otherwise.
const choice = (localStorage.getItem("adminTheme") ?? "auto").replaceAll('"', "");
const dark = choice === "dark" || (choice !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
document.documentElement.classList.toggle("dark", dark);
