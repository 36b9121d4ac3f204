// The map's search: it hides the lines without the words typed, and opens a claim that is alone.
const form = document.querySelector(".map-search");
const query = form.querySelector("input");
const lines = [...document.querySelectorAll(".map-claims details")];
const plain = text => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();  // é is e, ℓ is l
const texts = lines.map(line => plain(line.querySelector("summary").textContent));

function search() {
  const words = plain(query.value).split(/\s+/);
  lines.forEach((line, i) => line.hidden = !words.every(word => texts[i].includes(word)));
  const found = lines.filter(line => !line.hidden);
  if (found.length === 1) found[0].open = true;
  for (const section of document.querySelectorAll(".map-claims section"))
    section.hidden = !section.querySelector("details:not([hidden])");
  form.querySelector("output").value = `${found.length} of ${lines.length} claims`;
}

// A link to a claim shows it alone.
function show() {
  const line = lines.find(line => `#${line.id}` === location.hash);
  if (!line) return;
  query.value = line.querySelector(".id").textContent;
  search();
  line.open = true;
  line.scrollIntoView();
}

form.addEventListener("input", search);
form.addEventListener("submit", event => {
  event.preventDefault();
  lines.find(line => !line.hidden)?.querySelector("summary").focus();
});
addEventListener("hashchange", show);
search();
show();
