// What a reader would complain about, one line each: text over text, text outside of
// its cell, text that can hardly be told from its ground.
(() => {
  const problems = [];
  const shown = (e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest('#tools, thead, svg, dialog, script, style, noscript');
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const element = node.parentElement;
    if (!node.data.trim() || !shown(element)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const rects = Array.from(range.getClientRects()).filter((r) => r.width > 0 && r.height > 0);
    texts.push({ node, element, rects, what: node.data.trim().slice(0, 40) });
  }
  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1.5 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
  const all = texts.flatMap((t) => t.rects.map((r) => ({ r, t }))).sort((a, b) => a.r.top - b.r.top);
  for (let i = 0; i < all.length; i++) {
    for (let j = i + 1; j < all.length && all[j].r.top < all[i].r.bottom; j++) {
      if (all[i].t !== all[j].t && meet(all[i].r, all[j].r)) problems.push(`"${all[i].t.what}" and "${all[j].t.what}" lie over each other`);
    }
  }
  const numbers = (color) => (color.match(/[\d.]+/g) || []).map(Number);
  const light = (c) => {
    const [r, g, b] = c.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = numbers(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c.slice(0, 3);
    }
    return matchMedia('(prefers-color-scheme: dark)').matches ? [14, 18, 23] : [255, 255, 255];
  };
  for (const t of texts) {
    const cell = t.element.closest('td, th, dd, p, summary, figcaption');
    if (cell) {
      const box = cell.getBoundingClientRect();
      if (t.rects.some((r) => r.left < box.left - 1 || r.right > box.right + 1 || r.bottom > box.bottom + 1)) problems.push(`"${t.what}" is not within its ${cell.tagName}`);
    }
    const a = light(numbers(getComputedStyle(t.element).color).slice(0, 3));
    const b = light(ground(t.element));
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) problems.push(`"${t.what}" has a contrast of ${contrast.toFixed(1)}`);
  }
  return Array.from(new Set(problems)).slice(0, 20);
})()
