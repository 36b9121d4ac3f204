// Pages opened as files cannot read one another: the search then shows titles without excerpts.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// An excerpt begins at the article, not at the buttons above it.
document.addEventListener("DOMContentLoaded", () => {
  const htmlToText = Search.htmlToText;
  const buttons = /<div class="bd-header-article[^]*?(?=<article)/;
  Search.htmlToText = (page, anchor) => htmlToText(page.replace(buttons, ""), anchor);
});
