// The copy button of a console block copies its commands alone, without "$ " and without what they print.
document.addEventListener(
  "click",
  (event) => {
    const button = event.target.closest?.(".language-console [data-clipboard-target]");
    if (!button) return;
    const lines = document.querySelector(button.dataset.clipboardTarget).textContent.split("\n");
    const commands = lines.filter((line) => line.startsWith("$ ")).map((line) => line.slice(2));
    if (commands.length) button.dataset.clipboardText = commands.join("\n");
  },
  true,
);
