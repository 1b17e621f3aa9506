// Prepares tables for narrow screens; book.css lays them out. Without it they are tables that scroll.
document.querySelectorAll("main table").forEach((table) => {
    const labels = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
    const cells = [...table.querySelectorAll("tbody td")];
    for (const row of table.querySelectorAll("tbody tr")) {
        [...row.children].forEach((cell, column) => (cell.dataset.label = labels[column] ?? ""));
    }
    const numbers = cells.filter((cell) => /^[\d.,:\s×~<>%()-]+$/.test(cell.textContent));
    const isShort = cells.every((cell) => cell.textContent.length < 40);
    if (isShort && labels.length > 2 && numbers.length * 2 > cells.length) table.classList.add("numbers");
    else if (labels.length > 3) table.classList.add("stacked");

    // Names of tests and paths may break between their words.
    for (const code of table.querySelectorAll("td code")) {
        const pieces = code.textContent.split(/(?<=[_/.,]|::)(?=.)/);
        code.replaceChildren(...pieces.flatMap((piece) => [piece, document.createElement("wbr")]).slice(0, -1));
    }
});

// What is still too wide becomes rows of blocks, too, or breaks within words.
document.querySelectorAll("main table:not(.numbers)").forEach((table) => {
    if (table.scrollWidth <= table.parentElement.clientWidth) return;
    table.classList.add(table.querySelectorAll("thead th").length > 2 ? "stacked" : "tight");
});
