// What is more comfortable with a script; every view but `Live` is whole without it. Text goes in as text, never as HTML.
"use strict";

const MOST_ROWS = 200;

// `/` goes to the search field, as in other tools.
document.addEventListener("keydown", (event) => {
  const field = document.getElementById("find-text");
  const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
  if (event.key === "/" && field && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    field.focus();
  }
});

const all = document.getElementById("choose-all");
if (all) {
  all.addEventListener("change", () => {
    for (const box of document.querySelectorAll("input[name=id]")) box.checked = all.checked;
  });
}

const live = document.getElementById("live");
if (live) follow(live);

function follow(place) {
  const status = document.getElementById("live-status");
  const rows = document.getElementById("live-messages");
  const groups = document.getElementById("live-groups");
  let seen = 0;
  const source = new EventSource(place.dataset.events);
  source.onopen = () => { status.textContent = "Connected. Messages are shown as they arrive."; };
  source.onerror = () => { status.textContent = "Not connected: trying again. If this stays, the server has ended."; };
  source.onmessage = (event) => {
    const found = JSON.parse(event.data);
    if (found.error) { status.textContent = found.error; return; }
    if (found.missed) { status.textContent = `${found.missed} updates were missed: this browser was too slow.`; return; }
    seen += found.messages.length + found.more;
    for (const message of found.messages.slice().reverse()) rows.prepend(row(message, place.dataset.message));
    while (rows.children.length > MOST_ROWS) rows.lastElementChild.remove();
    const left = found.more ? ` ${found.more} of the last second are not shown.` : "";
    if (found.messages.length) status.textContent = `${seen} arrived since this page was opened.${left}`;
    document.getElementById("live-at").textContent = `Last look: ${found.at}`;
    groups.replaceChildren(...Object.entries(found.groups).map(([name, lag]) => {
      const line = made("tr", "row");
      line.append(cell(name, "Group"), cell(lag.toLocaleString("en"), "Behind", "number"));
      return line;
    }));
  };
}

function row(message, path) {
  const line = made("tr", "row");
  line.className = "new";
  const link = document.createElement("a");
  const batch = message.batch === null ? "" : `&batch=${message.batch}`;
  link.href = `${path}${path.includes("?") ? "&" : "?"}at=${message.at}${batch}`;
  link.textContent = message.time;
  const time = made("td", "cell");
  time.append(link);
  line.append(time, cell(`${message.topic}, queue ${message.queue}`, "Topic"), cell(message.keys, "Keys"), cell(message.body, "Body"));
  return line;
}

function cell(text, label, kind) {
  const found = made("td", "cell");
  found.dataset.label = label;
  if (kind) found.className = kind;
  found.textContent = text;
  return found;
}

// The style sheet may stack cells: the role says that it is a table all the same.
function made(name, role) {
  const found = document.createElement(name);
  found.setAttribute("role", role);
  return found;
}
