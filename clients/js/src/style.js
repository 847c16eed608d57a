/** The look of the notice; docs/browser.md lists what a page may set. */
const STYLE = `
:host{display:block;color-scheme:light dark}
section{
--line:var(--keyveil-line,light-dark(#ccc,#444));
--accent:var(--keyveil-accent,light-dark(#05a,#7bf));
color:var(--keyveil-ink,light-dark(#222,#eee));
background:var(--keyveil-paper,light-dark(#fff,#111));
font:var(--keyveil-font,1rem/1.5 system-ui,sans-serif);
border:1px solid var(--line);border-radius:.5rem;padding:1.25rem;max-width:39.375rem}
h2,h3,h4,p,ul,li{margin:.25rem 0;padding:0;font-size:1em}
h2{font-size:1.25em}
h3{margin-top:1.25rem}
h4,small{color:var(--keyveil-soft,light-dark(#555,#aaa));font-size:.85em}
section>div{display:grid;grid-template-columns:repeat(auto-fit,minmax(12rem,1fr));gap:.75rem}
li{display:block;border:1px solid var(--line);border-radius:.5rem;padding:.25rem .75rem;overflow-wrap:anywhere}
meter{width:100%}
button{font:inherit;color:var(--accent);background:none;border:1px solid var(--accent);border-radius:.5rem;padding:.5rem 1rem;margin:.25rem .5rem .25rem 0}
[part=accept]{color:var(--keyveil-on-accent,light-dark(#fff,#111));background:var(--accent)}
:disabled{opacity:.5}
[role=status]{font-weight:600}`;

let sheet;

/** The style sheet, made when the first notice is shown: a module may be loaded without a document. */
export function styleSheet() {
  if (!sheet) (sheet = new CSSStyleSheet()).replaceSync(STYLE);
  return sheet;
}
