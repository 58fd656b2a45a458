// The state of a toy in the address: #toy?name=value&name=value. Lists are joined by commas.

/** Which toy an address names, and its state as text. */
export const readHash = (hash) => {
  const [toy, query = ""] = hash.replace(/^#/, "").split("?");
  const given = {};
  for (const part of query.split("&").filter(Boolean)) {
    const [name, value = ""] = part.split("=");
    given[name] = decodeURIComponent(value);
  }
  return { toy, given };
};

const isNumbers = (value) => Array.isArray(value);

/** The state with what the address says in place of the defaults; what does not fit is left out. */
export const withGiven = (defaults, given) => {
  const state = { ...defaults };
  for (const [name, text] of Object.entries(given)) {
    if (!(name in defaults)) continue;
    const kind = defaults[name];
    if (isNumbers(kind)) {
      const numbers = text === "" ? [] : text.split(",").map(Number);
      if (numbers.every(Number.isFinite)) state[name] = numbers;
    } else if (typeof kind === "number") {
      if (text !== "" && Number.isFinite(Number(text))) state[name] = Number(text);
    } else {
      state[name] = text;
    }
  }
  return state;
};

/** The address of a state. */
export const writeHash = (toy, state) => {
  const parts = Object.entries(state).map(([name, value]) => {
    const text = isNumbers(value) ? value.join(",") : value;
    return `${name}=${encodeURIComponent(text).replace(/%2C/g, ",")}`;
  });
  return `#${toy}?${parts.join("&")}`;
};
