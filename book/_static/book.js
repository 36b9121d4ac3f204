// Pages opened as files cannot read one another: the search then shows titles without excerpts.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// A link to what is folded opens it.
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target?.matches("details")) {
    target.open = true;
    target.scrollIntoView();
  }
}
addEventListener("hashchange", openTarget);

document.addEventListener("DOMContentLoaded", () => {
  openTarget();

  // An excerpt begins at the article, not at the buttons above it. Only the page of the search has a Search.
  if (typeof Search !== "undefined") {
    const htmlToText = Search.htmlToText;
    const buttons = /<div class="bd-header-article[^]*?(?=<article)/;
    Search.htmlToText = (page, anchor) => htmlToText(page.replace(buttons, ""), anchor);
  }

  // A box that scrolls can be scrolled by the keyboard. It is measured as it comes near the window.
  const watcher = new IntersectionObserver(entries => {
    for (const {target, isIntersecting} of entries) {
      if (isIntersecting) target.tabIndex = target.scrollWidth > target.clientWidth ? 0 : -1;
    }
  }, {rootMargin: "400px"});
  document.querySelectorAll("article :is(pre, .output, .wide)").forEach(box => watcher.observe(box));
});
