// Formulas are set as they come near the window. A chapter has a thousand of them: all at once they would block a phone
// for seconds. MathJax itself is loaded once the page stands.
{
  const FORMULAS = "span.math, div.math";
  const mathjax = new URL("mathjax/", document.currentScript.src).href;
  const waiting = new Set();
  let setting = null;

  window.MathJax = {
    loader: {paths: {mathjax: mathjax.slice(0, -1)}, load: ["input/tex", "output/chtml", "a11y/assistive-mml"]},
    options: {...window.MathJax?.options, enableAssistiveMml: true},
    startup: {typeset: false},
  };

  const ready = new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = `${mathjax}startup.js`;
    script.onload = () => resolve(MathJax.startup.promise);
    script.onerror = reject;
    const load = () => (window.requestIdleCallback ?? setTimeout)(() => document.head.append(script));
    if (document.readyState === "complete") load();
    else addEventListener("load", load);
  });

  // Set what waits, a few formulas at a time, so that the page answers in between.
  async function setWaiting() {
    await ready;
    while (waiting.size) {
      const some = [...waiting].slice(0, 8);
      some.forEach(node => waiting.delete(node));
      await MathJax.typesetPromise(some);
      some.forEach(node => node.classList.add("set"));
      await new Promise(resolve => setTimeout(resolve));
    }
    setting = null;
  }

  function set(nodes) {
    nodes.forEach(node => waiting.add(node));
    return setting ??= setWaiting();
  }

  // All formulas that are left, as for a print of the page.
  window.setAllFormulas = () => set([...document.querySelectorAll(FORMULAS)].filter(node => !node.matches(".set")));
  addEventListener("beforeprint", setAllFormulas);

  const watcher = new IntersectionObserver(entries => {
    const near = entries.filter(entry => entry.isIntersecting).map(entry => entry.target);
    near.forEach(node => watcher.unobserve(node));
    if (near.length) set(near);
  }, {rootMargin: "800px"});
  ready.then(() => document.querySelectorAll(FORMULAS).forEach(node => watcher.observe(node)),
             () => document.documentElement.classList.add("no-maths"));  // then the TeX shows
}
