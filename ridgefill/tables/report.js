// The panel behind every number, moving between numbers by keyboard, the colour switch, and the list of contents.
(() => {
  const facts = JSON.parse(document.getElementById("facts").textContent);
  const at = (id) => document.getElementById(id);
  const panel = at("panel");
  let opened = null;

  // What the panel says.
  const digits = (value) => (typeof value === "number" ? String(value).replace("-", "\u2212") : value ?? "not measured");
  const range = (low, high) => (low === undefined || high === undefined ? "" : `${digits(low)} to ${digits(high)}`);
  const measured = (id, text) => {
    const [value, n, origin, unit, status] = facts.cells[id];
    const [query, run, entry] = facts.origins[origin];
    const base = id.replace(/\.(low|high)$/, "");
    const [low, high] = ["low", "high"].map((end) => (facts.cells[`${base}.${end}`] || [])[0]);
    return {
      title: id, text, trace: [`ridgefill trace ${id}`, `--results ${facts.experiment}`],
      rows: [
        ["Unrounded", digits(value) + (facts.units[unit] ? ` (${facts.units[unit]})` : "")],
        ["95 % interval", range(low, high)], ["n", String(n)], ["Note", facts.statuses[status]],
        ["Query", query], ["Run", run], ["Ledger entry", entry],
      ],
    };
  };
  const printed = (place, text) => {
    const one = facts.published[place];
    const where = [one.split === undefined ? "" : `split ${one.split}`, one.tail === undefined ? "" : `tail ${one.tail}`];
    return {
      title: `${one.ref} of the paper`, text: `${text} ${one.unit}`, trace: [],
      rows: [
        ["Model", one.model], ["Arm", [one.arm, ...where].filter(Boolean).join(", ")], ["Measure", one.metric],
        ["95 % interval", range(one.low, one.high)], ["n", String(one.n ?? "")], ["Note", one.note ?? ""],
      ],
    };
  };
  const line = (name, value) => {
    const row = document.createElement("div");
    row.append(Object.assign(document.createElement("dt"), { textContent: name }));
    row.append(Object.assign(document.createElement("dd"), { textContent: value }));
    return row;
  };

  const close = (back) => {
    if (panel.hidden) return;
    panel.hidden = true;
    opened.classList.remove("open");
    if (back) opened.focus();
    opened = null;
  };
  const open = (number) => {
    if (opened) opened.classList.remove("open");
    opened = number;
    number.classList.add("open");
    const text = number.textContent;
    const shown = number.dataset.cell ? measured(number.dataset.cell, text) : printed(number.dataset.published, text);
    at("panel-title").textContent = shown.title;
    at("panel-value").textContent = shown.text;
    at("panel-facts").replaceChildren(...shown.rows.filter(([, value]) => value).map(([name, value]) => line(name, value)));
    at("panel-command").replaceChildren(...shown.trace.flatMap((words, i) => {
      const part = Object.assign(document.createElement("span"), { textContent: words });
      return i ? [" ", part] : [part];
    }));
    at("panel-trace").hidden = !shown.trace.length;
    at("panel-copy").textContent = "Copy";
    panel.hidden = false;
    panel.focus({ preventScroll: true });
    const [spot, cover] = [number.getBoundingClientRect(), panel.getBoundingClientRect()];
    const under = spot.bottom + 16 - cover.top;
    if (under > 0 && spot.right > cover.left && spot.top < cover.bottom) scrollBy({ top: under });
  };

  // One stop of the Tab key per table or group; arrow keys go on from there.
  const groups = new Map();
  document.querySelectorAll(".n").forEach((number) => {
    const group = number.closest(".scroll, .cards, .facts, .summary, .glance, section");
    if (!groups.has(group)) groups.set(group, []);
    number.tabIndex = groups.get(group).length ? -1 : 0;
    number.setAttribute("role", "button");
    number.setAttribute("aria-haspopup", "dialog");
    groups.get(group).push(number);
  });
  const groupOf = (number) => groups.get(number.closest(".scroll, .cards, .facts, .summary, .glance, section"));
  const above = (number, step) => {
    const cell = number.closest("td");
    if (!cell) return null;
    const rows = [...cell.closest("table").querySelectorAll("tr")];
    // Counted from the right, because a label that spans rows is missing from all but the first of them.
    const place = cell.parentNode.cells.length - cell.cellIndex;
    const inside = [...cell.querySelectorAll(".n")].indexOf(number);
    for (let i = rows.indexOf(cell.parentNode) + step; rows[i]; i += step) {
      const there = rows[i].cells[rows[i].cells.length - place];
      const found = there ? [...there.querySelectorAll(".n")] : [];
      if (found.length) return found[Math.min(inside, found.length - 1)];
    }
    return number;
  };
  const move = (number, key) => {
    const group = groupOf(number);
    const place = group.indexOf(number);
    const step = key === "ArrowUp" || key === "ArrowLeft" ? -1 : 1;
    const vertical = (key === "ArrowUp" || key === "ArrowDown") && above(number, step);
    const next = vertical || { Home: group[0], End: group[group.length - 1] }[key] || group[place + step];
    if (!next) return;
    group.forEach((one) => { one.tabIndex = -1; });
    next.tabIndex = 0;
    next.focus();
  };

  document.addEventListener("click", (event) => {
    const number = event.target.closest(".n");
    if (number) open(number);
    else if (!event.target.closest("#panel")) close(false);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close(true);
    const number = event.target.closest && event.target.closest(".n");
    if (!number || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") open(number);
    else if (/^(Arrow|Home$|End$)/.test(event.key)) move(number, event.key);
    else return;
    event.preventDefault();
  });
  at("panel-close").addEventListener("click", () => close(true));
  at("panel-copy").addEventListener("click", async () => {
    getSelection().selectAllChildren(at("panel-command"));
    try {
      await navigator.clipboard.writeText(at("panel-command").textContent);
      at("panel-copy").textContent = "Copied";
    } catch {
      at("panel-copy").textContent = "Selected";
    }
  });

  // Light, dark, or as the system has it; kept where the browser lets a local page keep something.
  const choices = ["system", "light", "dark"];
  const memory = { get: () => { try { return localStorage.getItem("colours"); } catch { return null; } },
    set: (choice) => { try { localStorage.setItem("colours", choice); } catch { /* not kept */ } } };
  const paint = (choice) => {
    if (choice === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice;
    at("theme").textContent = `Colours: ${choice}`;
    at("theme").value = choice;
  };
  at("theme").hidden = false;
  paint(choices.includes(memory.get()) ? memory.get() : "system");
  at("theme").addEventListener("click", () => {
    const next = choices[(choices.indexOf(at("theme").value) + 1) % choices.length];
    paint(next);
    memory.set(next);
  });

  // Where the reader is. On a narrow page the list of contents starts closed, and closes when it has been used.
  const narrow = matchMedia("(max-width: 72rem)");
  const fold = () => { at("contents").open = !narrow.matches; };
  fold();
  narrow.addEventListener("change", fold);
  at("contents").addEventListener("click", (event) => { if (event.target.closest("a")) fold(); });
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
      links.forEach((link) => link.removeAttribute("aria-current"));
      links.get(entry.target.id).setAttribute("aria-current", "true");
    });
  }, { rootMargin: "-15% 0px -75% 0px" });
  document.querySelectorAll("main section").forEach((section) => { if (links.has(section.id)) seen.observe(section); });
})();
