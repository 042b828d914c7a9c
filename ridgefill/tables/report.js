// Tap or hover a number: its query, run and ledger entry appear at the foot of the page.
(() => {
  const origins = JSON.parse(document.getElementById("origins").textContent);
  const panel = document.getElementById("origin");
  const show = (target) => {
    const id = target.dataset.cell;
    const [query, run, entry, n, status] = origins[id];
    panel.textContent = `${id} · ${query} · run ${run} · ledger entry ${entry} · n = ${n}` +
      (status === "ok" ? "" : ` · ${status}`);
    panel.hidden = false;
  };
  const near = (event) => event.target.closest && event.target.closest("[data-cell]");
  document.addEventListener("click", (event) => {
    const target = near(event);
    if (target) show(target); else panel.hidden = true;
  });
  document.addEventListener("mouseover", (event) => { const target = near(event); if (target) show(target); });
  document.addEventListener("mouseout", (event) => { if (near(event)) panel.hidden = true; });
})();
