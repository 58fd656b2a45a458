// Elements, controls and numbers.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element with attributes (or listeners, as functions named on...) and children. */
export const h = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);

/** An SVG element. */
export const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

const fill = (element, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.filter((child) => child !== null));
  return element;
};

/** A number for people: four digits at most. */
export const show = (v, digits = 3) => {
  if (!Number.isFinite(v)) return "–";
  const size = Math.abs(v);
  const text = size >= 1e4 || (size > 1e-9 && size < 1e-3) ? v.toExponential(1) : v.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text.replace("-", "\u2212"));
};

export const round = (v, digits = 3) => Number(v.toFixed(digits));

/** A labelled slider; `onchange` gets numbers. */
export const slider = (label, { min, max, step, value, format = (v) => String(v) }, onchange) => {
  const output = h("output", {}, format(value));
  const input = h("input", {
    type: "range", min, max, step, value, "aria-label": label,
    oninput: () => {
      output.textContent = format(Number(input.value));
      onchange(Number(input.value));
    },
  });
  const element = h("label", { class: "control" }, h("span", {}, label, " ", output), input);
  element.set = (v) => {
    input.value = v;
    output.textContent = format(v);
  };
  return element;
};

/** A labelled choice among [value, text] pairs. */
export const choice = (label, options, value, onchange) => {
  const input = h("select", { onchange: () => onchange(input.value) },
    ...options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)));
  return h("label", { class: "control" }, h("span", {}, label), input);
};

export const button = (text, onclick, attributes = {}) =>
  h("button", { type: "button", onclick, ...attributes }, text);

export const controls = (...children) => h("div", { class: "controls" }, ...children);

/** What each colour in a plot means: pairs of a class and a text. */
export const legend = (...entries) =>
  h("p", { class: "legend" },
    ...entries.map(([kind, text]) => h("span", { class: kind }, h("i"), text)));
