// Keys: "/" goes to the search, "g" and a letter to a view.
"use strict";
let going = false;
const views = { l: "/", m: "/memories", p: "/people", c: "/contradictions", h: "/care" };
document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    const box = document.getElementById("q");
    event.preventDefault();
    if (box) box.focus(); else location.href = "/memories";
  } else if (going && views[event.key]) {
    location.href = views[event.key];
  }
  going = event.key === "g";
});
