"use strict";
// Steps: every moment of a run, those in loops once for each part. The data have the first part of
// a loop, and how often and when it comes again.

// Of a step with more, what runs after the first part of an inner loop is one step for all parts.
const MOST_STEPS = 2e6;

// Adds `steps` to a run: of each its `moment`, `start` and `end`; `folded` says of which loop's
// other parts a step stands for all. `peakStep` is the first at the peak, `tree` the loops.
function unfold(run, most = MOST_STEPS) {
  run.tree = loopTree(run);
  fold(run.tree, most);
  const count = stepsOf(run.tree);
  run.steps = { moment: new Uint32Array(count), start: new Float64Array(count), end: new Float64Array(count), folded: new Map(), copies: [], count };
  new Unfolding(run).part(run.tree, 1, 0);
  run.peakStep = Math.max(0, run.steps.moment.indexOf(run.peak));
}

function loopTree(run) {
  const { name, parts, first, last, start, seconds, other } = run.loops;
  const root = { row: -1, first: 0, last: run.count - 1, parts: 1, inner: [] };
  const around = [root];
  name.forEach((_, row) => {
    while (around.length > 1 && around[around.length - 1].last < first[row]) around.pop();
    const loop = { row, name: text(name[row]), first: first[row], last: last[row], parts: parts[row], start: start[row], seconds: seconds[row], other: other[row], inner: [], folded: false };
    around[around.length - 1].inner.push(loop);
    around.push(loop);
  });
  return root;
}

const stepsInPart = (loop) => loop.inner.reduce((sum, inner) => sum + stepsOf(inner) - (inner.last - inner.first + 1), loop.last - loop.first + 1);
const stepsOf = (loop) => (loop.folded && loop.parts > 1 ? stepsInPart(loop) + 1 : loop.parts * stepsInPart(loop));

// Innermost loops first, until the others have few enough steps.
function fold(root, most) {
  const inside = (loop) => [...loop.inner.flatMap(inside), loop];
  for (const loop of inside(root)) {
    if (stepsOf(root) <= most) return;
    if (loop !== root) loop.folded = true;
  }
}

class Unfolding {
  constructor(run) {
    this.run = run;
    this.at = 0;
    this.copies = new Map();
    run.copies.loop.forEach((loop, row) => this.copies.set(loop, [...(this.copies.get(loop) || []), row]));
  }

  // Once what is in `loop`; a first part's time t is t * scale + shift here.
  part(loop, scale, shift) {
    let moment = loop.first;
    for (const inner of loop.inner) {
      this.plain(moment, inner.first, scale, shift);
      this.parts(inner, scale, shift);
      moment = inner.last + 1;
    }
    this.plain(moment, loop.last + 1, scale, shift);
    for (const row of this.copies.get(loop.row) || []) {
      this.run.steps.copies.push({ row, start: this.run.copies.start[row] * scale + shift, end: this.run.copies.end[row] * scale + shift });
    }
  }

  plain(moment, until, scale, shift) {
    const { start, end } = this.run.moments;
    for (; moment < until; moment++) this.put(moment, start[moment] * scale + shift, end[moment] * scale + shift);
  }

  put(moment, start, end) {
    const steps = this.run.steps;
    steps.moment[this.at] = moment;
    steps.start[this.at] = start;
    steps.end[this.at++] = end;
  }

  parts(loop, scale, shift) {
    this.part(loop, scale, shift);
    if (loop.parts === 1) return;
    const second = loop.start + loop.seconds;
    if (loop.folded) {
      this.run.steps.folded.set(this.at, loop);
      this.put(fullest(this.run, loop), second * scale + shift, (second + (loop.parts - 1) * loop.other) * scale + shift);
      return;
    }
    const stretched = loop.seconds ? loop.other / loop.seconds : 1;
    for (let part = 1; part < loop.parts; part++) {
      const begin = second + (part - 1) * loop.other;
      this.part(loop, scale * stretched, (begin - loop.start * stretched) * scale + shift);
    }
  }
}

function fullest(run, loop) {
  let found = loop.first;
  for (let m = loop.first; m <= loop.last; m++) if (run.total[m] > run.total[found]) found = m;
  return found;
}

// The loops around a step, outer before inner, with the part of each; 0: all but the first.
function partsAt(run, step) {
  const found = [];
  for (let loop = run.tree, at = step; loop;) {
    let moment = loop.first, next = null;
    for (const inner of loop.inner) {
      const before = inner.first - moment;
      if (at < before) break;
      if (at - before < stepsOf(inner)) {
        const each = stepsInPart(inner), part = Math.floor((at - before) / each);
        found.push({ loop: inner, part: inner.folded && part > 0 ? 0 : part + 1 });
        at = inner.folded && part > 0 ? -1 : (at - before) % each;
        next = at < 0 ? null : inner;
        break;
      }
      at -= before + stepsOf(inner);
      moment = inner.last + 1;
    }
    loop = next;
  }
  return found;
}

function partsText(run, step) {
  return partsAt(run, step)
    .map(({ loop, part }) => (part ? `part ${number(part)} of ${number(loop.parts)} of loop ${loop.name}` : `parts 2 to ${number(loop.parts)} of loop ${loop.name}, each like the first, at their highest`))
    .join(", in ");
}
