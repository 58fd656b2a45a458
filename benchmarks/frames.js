// Moves something in every toy of the playground once a frame, and says how long each frame took.

const FRAMES = 150;
const nextFrame = () => new Promise((done) => requestAnimationFrame(done));
const one = (selector, i = 0) => document.querySelectorAll(selector)[i];
const wave = (i) => Math.sin(i / 9);
const pointer = (element, kind, x, y) => element.dispatchEvent(new PointerEvent(kind, {
  bubbles: true, cancelable: true, pointerId: 1, clientX: x, clientY: y,
}));
const choose = (element, value) => {
  element.value = value;
  const kind = element.tagName === "SELECT" ? "change" : "input";
  element.dispatchEvent(new Event(kind, { bubbles: true }));
};

/** Drag an element around the place where it is now. */
const dragging = (element, wide, high) => {
  const box = element.getBoundingClientRect();
  const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
  pointer(element, "pointerdown", x, y);
  return (i) => pointer(element, "pointermove", x + wide * wave(i), y + high * wave(1.3 * i));
};
const sliding = (element) => {
  const [low, high] = [Number(element.min), Number(element.max)];
  return (i) => choose(element, low + (high - low) * (0.5 + 0.5 * wave(i)));
};
const running = (prepare) => () => {
  prepare();
  one(".run").click();
  return () => {}; // the toy moves by itself
};

/** What is done in a toy before the first frame; it returns what is done in each. */
const motions = {
  "imputation: drag, 5 expectiles": ["imputation", () => dragging(one(".handle", 1), 60, 0)],
  "imputation: drag, 15 expectiles": ["imputation?k=15", () => dragging(one(".handle", 4), 60, 0)],
  "imputation: drag, Huber quantiles": ["imputation", () => {
    choose(one("select"), "huber");
    return dragging(one(".handle", 1), 60, 0);
  }],
  "back up: drag": ["backup", () => dragging(one(".handle"), 40, 20)],
  "back up: discount after 12 backups": ["backup", () => {
    for (let i = 0; i < 12; i += 1) one(".back-up").click();
    return sliding(one("input[type=range]", 3));
  }],
  "world: dynamic programming": ["grid", running(() => one(".buttons button", 2).click())],
  "world: temporal differences": ["grid", running(() => {
    one(".buttons button", 2).click();
    choose(one("select", 2), "td");
  })],
  "world: slips": ["grid", () => {
    one(".buttons button", 2).click();
    return sliding(one("input[type=range]"));
  }],
  "witness: drag": ["witness", () => dragging(one(".handle", 3), 40, 20)],
  "choose: paint": ["control", () => dragging(one(".paint"), 150, 40)],
  "play: 60 steps a second": ["minatar", running(() => choose(one("input[type=range]", 1), 60))],
  "decode: change a number": ["decode", () => (i) => choose(one("textarea"),
    `-1 0.1\n-0.5 0.3\n${(0.2 + 0.2 * wave(i)).toFixed(3)} 0.5\n1.1 0.7\n2 0.9`)],
};

const measure = async (hash, prepare) => {
  history.replaceState(null, "", `#${hash}`);
  playground.show();
  await nextFrame();
  const move = prepare();
  const { view } = playground.current;
  const own = view.frame?.bind(view);
  let begin = 0;
  if (own) {
    view.frame = () => {}; // it is called below, where its time is taken
  }
  const [work, gaps] = [[], []];
  let last = await nextFrame();
  for (let i = 1; i <= FRAMES; i += 1) {
    const now = await nextFrame();
    gaps.push(now - last);
    last = now;
    begin = performance.now();
    move(i);
    own?.(now);
    document.body.getBoundingClientRect(); // so that the layout is made now
    work.push(performance.now() - begin);
  }
  return { work, gaps };
};

const measureAll = async () => {
  const answer = {};
  for (const [name, [hash, prepare]] of Object.entries(motions)) {
    try {
      answer[name] = await measure(hash, prepare);
    } catch (error) {
      answer[name] = { error: `${error.stack}` };
    }
  }
  await fetch("/answer", { method: "POST", body: JSON.stringify(answer) });
};
measureAll();
