// The page of `longtail serve`. Everything that comes from a text, a label or the network is written with textContent.

const TYPING_PAUSE = 180; // milliseconds without a key before a request is sent
const MOST_ROWS = 100000; // rows of a CSV file that the page can step through

const at = (id) => document.getElementById(id);
const text = at("text"), backdrop = at("backdrop"), columns = at("columns"), problem = at("problem"), status_ = at("status");
const state = { answers: [], rows: [], row: 0, limits: null, open: null, request: null, marks: [] };

// Requests ---------------------------------------------------------------------------------------------------------

class Failure extends Error {}

async function call(path, body, signal) {
  const headers = { "Content-Type": "application/json", "X-Longtail-Page": "1" };
  const token = sessionStorage.getItem("longtail-token");
  if (token) headers.Authorization = `Bearer ${token}`;
  let answer;
  try {
    answer = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("The service cannot be reached. It may have been stopped.");
  }
  if (answer.status === 401) {
    at("token-form").hidden = false;
    throw new Failure(token ? "The token is wrong." : "This service needs a token. Enter it below the text.");
  }
  const document_ = await answer.json().catch(() => ({ detail: `The service answered with status ${answer.status}.` }));
  if (!answer.ok) throw new Failure(document_.detail);
  return document_;
}

function guarded(work) {
  return async (...args) => {
    try {
      problem.textContent = "";
      await work(...args);
    } catch (error) {
      if (error.name === "AbortError") return;
      problem.textContent = error instanceof Failure ? error.message : `The page failed: ${error.message}`;
    }
  };
}

// Suggestions ------------------------------------------------------------------------------------------------------

function chosenModels() {
  const names = [at("model").value];
  if (at("second").value) names.push(at("second").value);
  return names;
}

function wanted() {
  const k = Math.min(Math.max(1, Number(at("k").value) || 8), state.limits.max_k);
  return { k, threshold: Math.min(1, Math.max(0, (Number(at("threshold").value) || 0) / 100)) };
}

// Whoever waits for the labels of what was typed last, a screen reader for example, waits while the list is busy.
function busy(is) {
  columns.setAttribute("aria-busy", String(is));
}

const suggest = guarded(async () => {
  state.request?.abort();
  busy(true);
  state.open = null;
  mark([]);
  if (!text.value.trim()) {
    state.answers = [];
    columns.replaceChildren();
    status_.textContent = "Nothing to label yet.";
    busy(false);
    return;
  }
  const request = (state.request = new AbortController());
  const sent = text.value, start = performance.now();
  let answers;
  try {
    answers = await Promise.all(
      chosenModels().map((model) => call("/suggest", { texts: sent, model, ...wanted() }, request.signal)),
    );
  } finally {
    if (state.request === request) busy(text.value !== sent); // more was typed meanwhile, and is asked for soon
  }
  if (state.request !== request) return;
  state.answers = answers.map((answer) => ({ model: answer.model, labels: answer.results[0], text: sent }));
  const n = state.answers[0].labels.length;
  status_.textContent = `${n} label${n === 1 ? "" : "s"} in ${Math.round(performance.now() - start)} ms.`;
  show();
});

function show() {
  const common = state.answers.length > 1
    ? new Set(state.answers[0].labels.map((label) => label.label).filter((name) => state.answers[1].labels.some((other) => other.label === name)))
    : new Set();
  columns.replaceChildren(...state.answers.map((answer) => {
    const column = at("column-template").content.cloneNode(true);
    column.querySelector("h3").textContent = answer.model;
    const list = column.querySelector("ol");
    list.setAttribute("aria-label", `Labels by ${answer.model}`);
    list.append(...answer.labels.map((label) => item(answer, label, common.has(label.label))));
    if (!answer.labels.length) {
      const none = document.createElement("li");
      none.textContent = "No label reaches this probability.";
      list.append(none);
    }
    return column;
  }));
}

function item(answer, label, both) {
  const li = at("label-template").content.cloneNode(true).querySelector("li");
  const button = li.querySelector(".label"), percent = `${rounded(100 * label.probability)} %`;
  li.classList.toggle("both", both);
  li.querySelector(".name").textContent = label.label;
  const badge = li.querySelector(".badge");
  badge.textContent = label.group;
  badge.classList.add(label.group);
  badge.title = `${label.count.toLocaleString("en")} training examples`;
  li.querySelector(".probability").textContent = percent;
  li.querySelector(".bar").style.width = `${100 * label.probability}%`;
  button.title = label.id || label.label;
  button.setAttribute("aria-label",
    `${label.label}, ${percent}, ${label.group} label with ${label.count} training examples${both ? ", suggested by both models" : ""}. Show the words that mattered.`);
  button.addEventListener("click", guarded(() => explain(answer, label, li)));
  for (const [name, verdict] of [["up", "right"], ["down", "wrong"]]) {
    const thumb = li.querySelector(`.${name}`);
    thumb.setAttribute("aria-label", `${label.label} is ${verdict}`);
    thumb.title = `${verdict === "right" ? "Right" : "Wrong"} label`;
    thumb.addEventListener("click", guarded(() => judge(answer, label, verdict, li)));
  }
  return li;
}

// A number in percent or in points; a small one with a significant digit.
function rounded(number) {
  return number === 0 || number >= 0.1 ? number.toFixed(1) : number.toPrecision(1);
}

// Explanations -----------------------------------------------------------------------------------------------------

async function explain(answer, label, li) {
  const button = li.querySelector(".label"), why = li.querySelector(".why");
  const wasOpen = button.getAttribute("aria-expanded") === "true";
  for (const other of columns.querySelectorAll(".label")) other.setAttribute("aria-expanded", "false");
  for (const other of columns.querySelectorAll(".why")) other.hidden = true;
  mark([]);
  if (wasOpen) return;
  button.setAttribute("aria-expanded", "true");
  why.hidden = false;
  why.textContent = "Looking for the words that mattered …";
  const explained = await call("/explain", { text: answer.text, model: answer.model, labels: [label.label] });
  const { words, neighbours } = explained.labels[0];
  why.replaceChildren();
  const shown = words.slice(0, 12);
  why.textContent = shown.length ? "Effect on the probability, in points:" : "No single word mattered.";
  for (const word of shown) {
    const chip = document.createElement("mark");
    chip.className = word.effect > 0 ? "for" : "against";
    chip.textContent = `${word.word} ${word.effect > 0 ? "+" : "−"}${rounded(100 * Math.abs(word.effect))}`;
    why.append(chip);
  }
  if (neighbours.length) why.append(similarPoints(neighbours, label.label));
  if (explained.words_left_out) why.append(`(${explained.words_left_out} words of this long text were not tried)`);
  if (text.value === answer.text) mark(words);
}

function similarPoints(neighbours, label) {
  const list = document.createElement("ul");
  list.setAttribute("aria-label", `Similar training texts with ${label}`);
  list.append(...neighbours.map((near) => {
    const entry = document.createElement("li"), others = near.labels.filter((name) => name !== label);
    entry.textContent = `A training text ${Math.round(100 * near.similarity)} % similar has this label` +
      (others.length ? ` and ${others.slice(0, 3).join("; ")}${others.length > 3 ? " …" : ""}` : "");
    return entry;
  }));
  return list;
}

function mark(words) {
  state.marks = words;
  const strongest = Math.max(...words.map((word) => Math.abs(word.effect)), 1e-9);
  const spans = words
    .filter((word) => Math.abs(word.effect) > strongest / 50)
    .flatMap((word) => word.spans.map(([start, end]) => ({ start, end, effect: word.effect })))
    .sort((a, b) => a.start - b.start);
  if (!spans.length) {
    backdrop.replaceChildren();
    return;
  }
  const characters = Array.from(text.value); // spans count Unicode characters, strings count UTF-16 units
  const parts = [];
  let end = 0;
  for (const span of spans) {
    parts.push(characters.slice(end, span.start).join(""));
    const chip = document.createElement("mark");
    chip.className = `${span.effect > 0 ? "for" : "against"}${Math.abs(span.effect) < strongest / 5 ? " weak" : ""}`;
    chip.textContent = characters.slice(span.start, span.end).join("");
    parts.push(chip);
    end = span.end;
  }
  backdrop.replaceChildren(...parts, characters.slice(end).join("") + "\n");
  backdrop.scrollTop = text.scrollTop;
}

// Feedback ---------------------------------------------------------------------------------------------------------

// A second click on a thumb takes the judgement back; the other thumb replaces it.
async function judge(answer, label, verdict, li) {
  const former = li.dataset.verdict;
  if (former) {
    const undone = await call("/learn/undo", { model: answer.model, ids: [li.dataset.correction] });
    delete li.dataset.verdict;
    for (const thumb of li.querySelectorAll(".up, .down")) thumb.setAttribute("aria-pressed", "false");
    const kept = undone.learnt ? " The model has learnt it already, and forgets it in the next training." : "";
    status_.textContent = `Taken back: ${label.label} is ${former}.${kept}`;
    if (former === verdict) return;
  }
  const correction = { text: answer.text, [verdict]: [label.label], id: crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}` };
  const stored = await call("/learn", { model: answer.model, corrections: [correction] });
  Object.assign(li.dataset, { verdict, correction: correction.id });
  li.querySelector(".up").setAttribute("aria-pressed", String(verdict === "right"));
  li.querySelector(".down").setAttribute("aria-pressed", String(verdict === "wrong"));
  const when = stored.learning === "background" ? "The model learns it in the background." : "It is used by the next training.";
  status_.textContent = `Stored: ${label.label} is ${verdict}. ${when}`;
}

// Files ------------------------------------------------------------------------------------------------------------

function parseCsv(source) {
  const separator = (source.split("\n", 1)[0].match(/;/g) || []).length > (source.split("\n", 1)[0].match(/,/g) || []).length ? ";" : ",";
  const rows = [];
  let row = [], cell = "", quoted = false;
  for (let i = 0; i < source.length && rows.length < MOST_ROWS; i++) {
    const c = source[i];
    if (quoted) {
      if (c === '"' && source[i + 1] === '"') { cell += '"'; i++; }
      else if (c === '"') quoted = false;
      else cell += c;
    } else if (c === '"' && cell === "") quoted = true;
    else if (c === separator) { row.push(cell); cell = ""; }
    else if (c === "\n") { row.push(cell.replace(/\r$/, "")); rows.push(row); row = []; cell = ""; }
    else cell += c;
  }
  if (cell || row.length) { row.push(cell); rows.push(row); }
  return rows.filter((cells) => cells.length > 1 || cells[0].trim()); // blank lines are no rows; rows without text are
}

function textsOf(rows) {
  if (!rows.length) return [];
  const names = rows[0].map((name) => name.trim().toLowerCase());
  const usual = names.includes("text") ? ["text"] : ["title", "content", "abstract", "description", "body"]; // as longtail.read
  const columns_ = usual.map((name) => names.indexOf(name)).filter((i) => i >= 0);
  if (columns_.length) return rows.slice(1).map((cells) => columns_.map((i) => cells[i]).filter(Boolean).join("\n"));
  const longest = rows[0].map((_, i) => rows.slice(0, 50).reduce((sum, cells) => sum + (cells[i] ?? "").length, 0));
  const column = longest.indexOf(Math.max(...longest));
  return rows.map((cells) => cells[column] ?? "");
}

const open = guarded(async (file) => {
  if (!file) return;
  if (file.size > state.limits.max_body) throw new Failure(`${file.name} has more than ${state.limits.max_body.toLocaleString("en")} bytes.`);
  let content;
  try {
    content = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Failure(`${file.name} is not a text file in UTF-8.`);
  }
  const rows = /\.csv$/i.test(file.name) ? textsOf(parseCsv(content)) : [content];
  if (!rows.some((row) => row.trim())) throw new Failure(`${file.name} holds no text.`);
  state.rows = rows;
  at("rows").hidden = state.rows.length < 2;
  showRow(0);
});

function showRow(row) {
  state.row = Math.min(Math.max(0, row), state.rows.length - 1);
  at("row-name").textContent = `Row ${state.row + 1} of ${state.rows.length}`;
  text.value = state.rows[state.row];
  suggest();
}

const labelAll = guarded(async () => {
  const [model] = chosenModels(), lines = [["row", "label", "id", "probability"]];
  const size = Math.min(200, state.limits.max_batch);
  for (let start = 0; start < state.rows.length; start += size) {
    const answer = await call("/suggest", { texts: state.rows.slice(start, start + size), model, ...wanted() });
    answer.results.forEach((labels, i) => labels.forEach((label) => lines.push([start + i + 1, label.label, label.id ?? "", label.probability])));
    status_.textContent = `Labelled ${Math.min(start + size, state.rows.length)} of ${state.rows.length} rows.`;
  }
  await copy(csv(lines), `the labels of ${state.rows.length} rows as CSV`);
});

// Copying ----------------------------------------------------------------------------------------------------------

function csv(rows) {
  const cell = (value) => {
    const safe = /^[=+\-@\t\r]/.test(String(value)) && typeof value !== "number" ? `'${value}` : String(value); // no formulas in a spreadsheet
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

async function copy(content, what) {
  try {
    await navigator.clipboard.writeText(content);
  } catch { // without permission, or on an address that the browser does not trust
    const hidden = document.createElement("textarea");
    hidden.value = content;
    document.body.append(hidden);
    hidden.select();
    document.execCommand("copy");
    hidden.remove();
  }
  status_.textContent = `Copied ${what}.`;
}

at("copy-json").addEventListener("click", guarded(() => copy(
  JSON.stringify(state.answers.map(({ model, labels }) => ({ model, text: text.value, labels })), null, 2), "as JSON")));
at("copy-csv").addEventListener("click", guarded(() => copy(
  csv([["model", "label", "id", "probability"],
    ...state.answers.flatMap(({ model, labels }) => labels.map((label) => [model, label.label, label.id ?? "", label.probability]))]), "as CSV")));

// The page itself --------------------------------------------------------------------------------------------------

let pause;
text.addEventListener("input", () => {
  mark([]);
  busy(true);
  clearTimeout(pause);
  pause = setTimeout(suggest, TYPING_PAUSE);
});
text.addEventListener("scroll", () => { backdrop.scrollTop = text.scrollTop; });
new ResizeObserver(() => { backdrop.style.height = `${text.clientHeight}px`; }).observe(text);
for (const id of ["model", "second", "k", "threshold"]) at(id).addEventListener("change", suggest);
at("clear").addEventListener("click", () => { text.value = ""; state.rows = []; at("rows").hidden = true; suggest(); text.focus(); });
at("previous").addEventListener("click", () => showRow(state.row - 1));
at("next").addEventListener("click", () => showRow(state.row + 1));
at("label-all").addEventListener("click", labelAll);
at("file").addEventListener("change", (event) => { open(event.target.files[0]); event.target.value = ""; });
const drop = at("drop");
drop.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); });
drop.addEventListener("dragleave", () => drop.classList.remove("over"));
drop.addEventListener("drop", (event) => {
  drop.classList.remove("over");
  if (!event.dataTransfer.files.length) return; // text that is dragged lands in the text area by itself
  event.preventDefault();
  open(event.dataTransfer.files[0]);
});
at("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("longtail-token", at("token").value.trim());
  at("token-form").hidden = true;
  start();
});

const start = guarded(async () => {
  state.limits = await call("/models");
  const option = (name, value = name) => new Option(name, value);
  const names = state.limits.models.map((model) => model.name);
  at("model").replaceChildren(...names.map((name) => option(name)));
  at("second").replaceChildren(option("nothing", ""), ...names.map((name) => option(name)));
  at("second-label").hidden = names.length < 2;
  at("k").max = state.limits.max_k;
  if (!names.length) {
    status_.textContent = "The models are still being loaded …";
    setTimeout(start, 500);
    return;
  }
  await suggest();
});
start();
