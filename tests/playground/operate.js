// Operates every toy of the playground as a person would, and writes down what it shows.

const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const find = (selector) => {
  const found = document.querySelector(selector);
  if (!found) throw new Error(`there is no ${selector}`);
  return found;
};
const all = (selector) => [...document.querySelectorAll(selector)];
const go = (hash) => {
  history.replaceState(null, "", `#${hash}`);
  playground.show();
};
const press = (text) => {
  const found = all("button").find((one) => one.textContent === text);
  if (!found) throw new Error(`there is no button ${text}`);
  found.click();
};
const pointer = (element, kind, x, y) => element.dispatchEvent(new PointerEvent(kind, {
  bubbles: true, cancelable: true, pointerId: 1, clientX: x, clientY: y,
}));
const drag = (element, dx, dy) => {
  const box = element.getBoundingClientRect();
  const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
  pointer(element, "pointerdown", x, y);
  for (const way of [0.25, 0.5, 0.75, 1]) {
    pointer(element, "pointermove", x + dx * way, y + dy * way);
  }
  pointer(element, "pointerup", x + dx, y + dy);
};
const key = (element, name) => {
  element.focus();
  for (const kind of ["keydown", "keyup"]) {
    const event = new KeyboardEvent(kind, { key: name, bubbles: true, cancelable: true });
    element.dispatchEvent(event);
  }
};
const choose = (element, value) => {
  element.value = value;
  const kind = element.tagName === "SELECT" ? "change" : "input";
  element.dispatchEvent(new Event(kind, { bubbles: true }));
};
/** Frames of an animation, whatever the browser's clock does. */
const frames = (count) => {
  for (let i = 1; i <= count; i += 1) playground.current.view.frame(performance.now() + 1000 * i);
};
const numbers = () => playground.current.view.numbers();
const message = () => find(".message").textContent;

/** What a toy shows, its code, and whether a link brings the same numbers back. */
const record = async () => {
  const shown = numbers();
  press("Show the Python code");
  const code = find("pre.code").textContent;
  await wait(400); // until the address is written
  const hash = location.hash.slice(1);
  go(hash);
  return { shown, code, hash, again: numbers(), message: message() };
};

const operations = {
  async imputation() {
    go("imputation");
    const before = [...playground.current.state.v];
    drag(all(".handle")[0], 300, 0);
    const dragged = [...playground.current.state.v];
    const repaired = find(".message").classList.contains("bad");
    key(all(".handle")[2], "ArrowRight");
    const keyed = [...playground.current.state.v];
    const main = await record();
    const others = {};
    for (const kind of ["quantiles", "huber", "categorical"]) {
      choose(find("select"), kind);
      choose(find("input[type=range]"), 4);
      drag(all(".handle")[1], 20, -20);
      others[kind] = numbers();
    }
    press("A rare win");
    return { ...main, before, dragged, keyed, repaired, others, fits: message() };
  },
  async backup() {
    go("backup");
    drag(all(".handle")[0], -20, 10);
    for (let i = 0; i < 7; i += 1) find(".back-up").click();
    press("Undo");
    return record();
  },
  async grid() {
    go("grid");
    find("[data-tool='-']").click();
    find("[data-place='0,0']").click();
    find("[data-tool='turn']").click();
    find("[data-place='0,1']").click();
    press("Best arrows");
    choose(find("input[aria-label='Slips']"), 0.3);
    find("[data-tool='mark']").click();
    find("[data-place='0,3']").click();
    for (let i = 0; i < 12; i += 1) find(".one-step").click();
    const main = await record();
    frames(60); // the truth is tightened frame by frame
    const { sweeps } = playground.current.view.truth;
    choose(all("select")[2], "td");
    find(".run").click();
    frames(10);
    return { ...main, sweeps, learnt: playground.current.state.sweeps };
  },
  async witness() {
    go("witness");
    drag(all(".handle")[3], -10, 20);
    find(".match").click();
    const matched = playground.current.view.found.apart;
    const main = await record();
    const own = {};
    for (const kind of ["quantiles", "categorical", "expectiles", "moments"]) {
      go(`witness?family=${kind}`);
      find(".own").click();
      const { found, gap, apart } = playground.current.view.found;
      own[kind] = { found, gap, apart, message: message() };
    }
    return { ...main, matched, own };
  },
  async control() {
    go("control");
    const figure = find(".message").textContent;
    drag(all(".paint")[0], 120, 30);
    key(all(".handle")[0], "ArrowUp");
    return { ...(await record()), figure };
  },
  async minatar() {
    go("minatar?tau=0.3");
    for (let i = 0; i < 20; i += 1) find(".one-step").click();
    choose(find("input[type=range]"), 0.8);
    for (let i = 0; i < 2; i += 1) key(find("canvas"), "ArrowRight");
    for (let i = 0; i < 10; i += 1) find(".one-step").click();
    const main = await record();
    find(".run").click();
    frames(10);
    return { ...main, moves: playground.current.state.actions.length };
  },
  async decode() {
    go("decode");
    choose(find("textarea"), "0.3 1.5");
    const refused = message();
    choose(find("textarea"), "-1 0.1\n-0.5 0.3\n0.2 0.5\n1.1 0.7\n2 0.9");
    return { ...(await record()), refused };
  },
};

const operate = async () => {
  const answer = {};
  for (const toy of playground.toys) {
    try {
      answer[toy] = await operations[toy]();
    } catch (error) {
      answer[toy] = { error: `${error.stack}` };
    }
  }
  answer.width = document.documentElement.scrollWidth;
  answer.screen = innerWidth;
  const place = document.createElement("pre");
  place.id = "answer";
  place.textContent = JSON.stringify(answer);
  document.body.append(place);
};
operate();
