// Makes a page ready for print.css, as wide as the paper: called by claimbook/pdf.py with the style, and with the number of
// the page before. Returns the formulas and figures that did not come, and the headings as [level, words, id].
async (style, before) => {
  const all = selector => [...document.querySelectorAll(selector)];
  document.documentElement.dataset.theme = "light";
  const dress = text => document.head.append(Object.assign(document.createElement("style"), {textContent: text}));
  dress(style);

  // What is not printed need not be set. A line of the ledger or of the errata leads to its claim's box.
  for (const line of all("details:is(.claim-line, .erratum)")) {
    const id = line.querySelector(".id");
    const box = line.querySelector(`a[href$="#${id.textContent}"]`);
    if (box) id.innerHTML = `<a href="${box.href}">${id.innerHTML}</a>`;
    line.replaceChildren(line.querySelector("summary"));
  }
  all("details.code, .claim details, figure > details").forEach(node => node.remove());

  // Formulas, figures and fonts. MathJax may begin only once the page has loaded.
  const maths = all("article .math");
  for (let i = 0; i < 300 && maths.length && !window.MathJax?.startup?.promise; i++) {
    await new Promise(resolve => setTimeout(resolve, 100));
  }
  await window.MathJax?.startup?.promise;
  const unset = () => maths.filter(node => !node.querySelector("mjx-container"));
  if (unset().length) await window.MathJax?.typesetPromise?.(unset());
  const images = all("article img");
  images.forEach(image => image.loading = "eager");
  await Promise.all(images.map(image => image.decode().catch(() => {})));
  await document.fonts.ready;

  // What is wider than its room becomes as narrow.
  for (const node of all("article :is(mjx-container, table)")) {
    const room = node.parentElement.closest("div, p, li, dd, section, td, figure");
    const {paddingLeft, paddingRight} = getComputedStyle(room);
    const width = room.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
    const own = Math.max(node.scrollWidth, node.getBoundingClientRect().width);
    if (width > 0 && own > width + 1) node.style.zoom = width / own;
  }

  // A table of less than a third of a page is not split.
  all("article table").forEach(node => node.classList.toggle("short", node.offsetHeight < 320));

  // A section begins where its heading stands, which may have moved to the next page.
  const heads = all("article section[id] > :is(h1, h2, h3, h4, h5, h6):first-of-type");
  for (const head of heads.filter(node => !node.id)) {
    head.id = head.parentElement.id;
    head.parentElement.removeAttribute("id");
  }

  // A PDF knows the places that its own page links to, so that each is linked to.
  const links = document.body.appendChild(document.createElement("div"));
  links.hidden = true;
  for (const {id} of all("main [id]").filter(node => !node.closest("mjx-container"))) {
    links.append(Object.assign(document.createElement("a"), {href: `#${encodeURIComponent(id)}`}));
  }
  const words = node => [...node.childNodes].map(child => child.nodeType === Node.TEXT_NODE ? child.data
    : child.matches(".headerlink, mjx-math") ? "" : words(child)).join("");
  const headings = heads.filter(node => node.matches("h1, h2")).map(node =>
    [Number(node.tagName[1]), words(node).trim().replace(/\s+/g, " "), node.id]);

  const small = "font: 9pt sans-serif; color: #48566b;";
  dress(`html { counter-reset: page ${before}; }
    @page { @top-right { content: ${JSON.stringify(headings[0]?.[1] ?? "")}; ${small} } @bottom-center { content: counter(page); ${small} } }
    @page :first { @top-right { content: none; } }`);
  const lost = images.filter(image => !image.naturalWidth).map(image => image.src);
  return {missing: [...unset().map(node => node.textContent), ...lost], headings};
}
