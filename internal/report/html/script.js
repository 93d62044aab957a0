'use strict';
// Keys and the filter. The page shows everything without this script.
(() => {
  const every = (what) => Array.from(document.querySelectorAll(what));
  const filter = document.getElementById('filter');
  const found = document.getElementById('found');
  const keys = document.getElementById('keys');
  let on = null;

  // Visible steps: not filtered out, and not in a closed part of the page.
  const steps = () => every('tr.step').filter((r) => !r.hidden && r.checkVisibility());

  function select(row, block) {
    if (!row) return;
    if (on) {
      on.classList.remove('on');
      on.removeAttribute('aria-current');
      on.tabIndex = -1;
    }
    on = row;
    row.classList.add('on');
    row.setAttribute('aria-current', 'step');
    row.tabIndex = 0;
    row.focus({ preventScroll: true });
    row.scrollIntoView({ block: block || 'nearest' });
  }

  const detail = (row) => {
    const next = row && row.nextElementSibling;
    return next && next.classList.contains('detail') ? next : null;
  };

  function toggle(row) {
    const d = detail(row);
    if (!d) return;
    d.hidden = !d.hidden;
    row.setAttribute('aria-expanded', String(!d.hidden));
    if (!d.hidden) {
      d.scrollIntoView({ block: 'nearest' });
      row.scrollIntoView({ block: 'nearest' });
    }
  }

  function move(by) {
    const all = steps();
    const at = all.indexOf(on);
    select(at < 0 ? all[0] : all[Math.min(all.length - 1, Math.max(0, at + by))]);
  }

  function violation() {
    const all = steps().filter((r) => r.classList.contains('violated'));
    if (!all.length) return;
    const after = on && all.find((r) => on.compareDocumentPosition(r) & Node.DOCUMENT_POSITION_FOLLOWING);
    const row = after || all[0];
    select(row, 'center');
    // Scroll down if there is room, so that the steps that led to the violation are visible.
    const room = innerHeight - row.getBoundingClientRect().bottom - 160;
    scrollBy(0, -Math.max(0, Math.min(room, innerHeight / 4)));
  }

  function apply() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let n = 0;
    const all = every('tr.step');
    for (const row of all) {
      row.hidden = !words.every((w) => row.dataset.find.includes(w));
      if (row.hidden) {
        const d = detail(row);
        if (d) d.hidden = true;
        row.setAttribute('aria-expanded', 'false');
      } else {
        n++;
      }
    }
    found.textContent = words.length ? n + ' of ' + all.length + ' steps' : '';
  }

  function clear() {
    if (!filter.value) return;
    filter.value = '';
    apply();
    if (on) select(on, 'center');
  }

  const does = {
    j: () => move(1), ArrowDown: () => move(1),
    k: () => move(-1), ArrowUp: () => move(-1),
    Home: () => select(steps()[0], 'center'),
    End: () => select(steps().pop(), 'center'),
    Enter: () => toggle(on),
    n: violation,
    '/': () => filter.focus(),
    '?': () => keys.showModal(),
    Escape: clear,
  };

  document.addEventListener('keydown', (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || keys.open) return;
    if (e.target === filter) {
      if (e.key === 'Escape' || e.key === 'Enter') {
        if (e.key === 'Escape') clear();
        filter.blur();
        select(on && !on.hidden ? on : steps()[0]);
        e.preventDefault();
      }
      return;
    }
    if (e.key === 'Enter' && e.target.closest('button, a, summary')) return;
    if (!Object.hasOwn(does, e.key)) return;
    e.preventDefault();
    does[e.key]();
  });

  document.addEventListener('click', (e) => {
    const button = e.target.closest('button[data-key]');
    if (button) {
      does[button.dataset.key]();
      return;
    }
    const row = e.target.closest('tr.step');
    if (!row || !getSelection().isCollapsed) return;
    select(row);
    toggle(row);
  });

  filter.addEventListener('input', apply);
  addEventListener('beforeprint', () => every('details').forEach((d) => { d.open = true; }));

  const linked = () => {
    const row = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    return row && row.matches('tr.step') ? row : null;
  };
  addEventListener('hashchange', () => select(linked(), 'center'));
  for (const row of every('tr.step')) if (detail(row)) row.setAttribute('aria-expanded', 'false');
  const first = linked();
  if (first) select(first, 'center');
  else violation();
})();
