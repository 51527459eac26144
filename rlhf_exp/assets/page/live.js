"use strict";
// Added by the server to the page of a run that is going on: reloads it when the run has written something, and puts
// back the place, the open sections, and what was chosen. data-state of this script is the state that the page shows.
{
  const shown = document.currentScript.dataset.state;
  const place = `live ${location.pathname}`;
  const list = (selector) => [...document.querySelectorAll(selector)];
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  const name = (found, read) => found.map((one, i) => [`${i} ${read(one).textContent}`, one]);
  const sections = () => name(list("details"), (one) => one.firstElementChild);
  const controls = () => name(list(".tools :is(input, select)"), (one) => one.parentElement.firstChild);

  const keep = () => {
    const open = Object.fromEntries(sections().map(([key, one]) => [key, one.open]));
    const chosen = Object.fromEntries(controls().map(([key, one]) => [key, [one.checked, one.value]]));
    sessionStorage.setItem(place, JSON.stringify({ open, chosen, top: scrollY }));
  };

  const restore = ({ open, chosen, top }) => {
    for (const [key, one] of sections()) one.open = open[key] ?? one.open;
    for (const [key, one] of controls()) {
      const [checked, value] = chosen[key] ?? [one.checked, one.value];
      if (one.checked !== checked) one.click();
      if (one.type === "checkbox" || one.value === value) continue;
      one.value = value;
      one.dispatchEvent(new Event(one.tagName === "SELECT" ? "change" : "input"));
    }
    scrollTo(0, top);
  };

  const watch = async () => {
    history.scrollRestoration = "manual";
    while (!("ready" in document.documentElement.dataset)) await wait(50);
    const kept = sessionStorage.getItem(place);
    sessionStorage.removeItem(place); // a reload by the reader begins anew
    if (kept) restore(JSON.parse(kept));
    const pause = Math.max(3000, 5 * performance.now()); // a page that takes long to make is made less often
    let found = shown;
    while (found === shown) {
      await wait(pause);
      if (document.hidden || document.activeElement?.matches("[type=search], [type=number]")) continue;
      const answer = await fetch(`/state?run=${location.pathname}`).catch(() => ({ ok: false }));
      if (answer.ok) found = await answer.text();
    }
    keep();
    location.reload();
  };
  watch();
}
