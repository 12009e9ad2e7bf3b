"use strict";
(() => {
  // Light, dark, or as the system has it.
  const root = document.documentElement, button = document.getElementById("theme");
  const themes = ["system", "light", "dark"];
  const words = { system: "as the system", light: "light", dark: "dark" };
  const kept = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const show = (theme) => {
    if (theme === "system") delete root.dataset.theme; else root.dataset.theme = theme;
    button.textContent = "Theme: " + words[theme];
    button.dataset.now = theme;
  };
  show(themes.includes(kept()) ? kept() : "system");
  button.hidden = false;
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(button.dataset.now) + 1) % themes.length];
    try { localStorage.setItem("theme", next); } catch { /* not kept, then */ }
    show(next);
  });

  // On a narrow screen the contents begin closed.
  if (matchMedia("(max-width: 72rem)").matches) document.querySelector("nav details").open = false;

  // A cursor in each plot, moved by keys and by the pointer.
  const make = (place, box) => {
    const cursor = document.createElement("i");
    cursor.className = box ? "cursor box" : "cursor";
    cursor.hidden = true;
    place.append(cursor);
    return cursor;
  };
  const overAxis = (plot, data, say) => {
    const fields = [...plot.querySelectorAll(".field")];
    const cursors = fields.map((field) => make(field, false));
    return {
      count: data.at.length, row: 10,
      move: (at) => {
        for (const cursor of cursors) { cursor.hidden = false; cursor.style.left = data.at[at] / 10 + "%"; }
        say(data.say[at]);
      },
      hide: () => { for (const cursor of cursors) cursor.hidden = true; },
      at: (event) => {
        const box = fields[0].getBoundingClientRect();
        const wanted = (event.clientX - box.left) / box.width * 1000;
        let best = 0;
        data.at.forEach((place, at) => { if (Math.abs(place - wanted) < Math.abs(data.at[best] - wanted)) best = at; });
        return best;
      },
    };
  };
  const inRows = (plot, data, say) => {
    const rows = [...plot.querySelectorAll(".row")];
    const clear = () => { for (const row of rows) row.classList.remove("at"); };
    return {
      count: rows.length, row: 1,
      move: (at) => { clear(); rows[at].classList.add("at"); say(data.rows[at]); },
      hide: clear,
      at: (event) => {
        const found = rows.findIndex((row) => event.clientY < row.getBoundingClientRect().bottom);
        return found < 0 ? rows.length - 1 : found;
      },
    };
  };
  const inGrid = (plot, data, say) => {
    const fields = [...plot.querySelectorAll(".field")];
    const cursors = fields.map((field) => make(field, true));
    const count = Math.max(...data.maps.map((map) => map.fields.length));
    const kind = (map, at) => data.kinds[map.fields.charCodeAt(at) - 97] ?? "-";
    return {
      count, row: data.columns,
      move: (at) => {
        cursors.forEach((cursor, number) => {
          const rows = Math.ceil(data.maps[number].fields.length / data.columns);
          cursor.hidden = false;
          cursor.style.left = (at % data.columns) / data.columns * 100 + "%";
          cursor.style.top = Math.floor(at / data.columns) / rows * 100 + "%";
          cursor.style.width = 100 / data.columns + "%";
          cursor.style.height = 100 / rows + "%";
        });
        say("field " + (at + 1) + ": " + data.maps.map((map) => map.name + " " + kind(map, at)).join(", "));
      },
      hide: () => { for (const cursor of cursors) cursor.hidden = true; },
      at: (event) => {
        for (const [number, field] of fields.entries()) {
          const box = field.getBoundingClientRect();
          if (event.clientX < box.left || event.clientX > box.right || event.clientY < box.top || event.clientY > box.bottom) continue;
          const rows = Math.ceil(data.maps[number].fields.length / data.columns);
          const across = Math.floor((event.clientX - box.left) / box.width * data.columns);
          const down = Math.floor((event.clientY - box.top) / box.height * rows);
          return Math.min(down * data.columns + across, count - 1);
        }
        return -1;
      },
    };
  };

  for (const plot of document.querySelectorAll(".plot")) {
    const data = JSON.parse(plot.querySelector("script.data").textContent);
    const output = plot.parentElement.querySelector("output.readout");
    const say = (words) => { output.textContent = words; };
    const kind = data.at ? overAxis : data.rows ? inRows : inGrid;
    const cursor = kind(plot, data, say);
    if (!cursor.count) continue;
    let now = -1;
    const go = (at) => {
      now = Math.max(0, Math.min(cursor.count - 1, at));
      cursor.move(now);
    };
    const keys = {
      ArrowRight: () => now + 1, ArrowLeft: () => now - 1,
      ArrowDown: () => now + cursor.row, ArrowUp: () => now - cursor.row,
      PageDown: () => now + 10 * cursor.row, PageUp: () => now - 10 * cursor.row,
      Home: () => 0, End: () => cursor.count - 1,
    };
    plot.addEventListener("keydown", (event) => {
      const key = keys[event.key];
      if (event.key === "Escape") { cursor.hide(); now = -1; say(""); return; }
      if (!key || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      go(key());
    });
    plot.addEventListener("pointermove", (event) => { const at = cursor.at(event); if (at >= 0 && at !== now) go(at); });
    plot.addEventListener("pointerleave", () => { if (document.activeElement !== plot) { cursor.hide(); now = -1; say(""); } });
    plot.addEventListener("blur", () => { cursor.hide(); now = -1; say(""); });
  }
})();
