// Draws a board of Grafana from its JSON and a Prometheus. ?range= and ?step= are seconds, ?scrape= is the
// interval of the scrapes, ?var-operation= chooses.
import { el, heatmap, stat, table, timeseries } from './panels.js';

const draw = { stat, timeseries, heatmap, table };
const query = new URLSearchParams(location.search);
const number = (name, byDefault) => +(query.get(name) ?? byDefault);
const range = number('range', 900), step = number('step', Math.max(1, Math.round(range / 120))), scrape = number('scrape', 5);
const now = number('to', Math.floor(Date.now() / 1000)), from = now - range;
const CELL = 30, GAP = 8;

async function ask(path, parameters) {
  const answer = await (await fetch(`/api/v1/${path}?${new URLSearchParams(parameters)}`)).json();
  if (answer.status !== 'success') throw new Error(answer.error);
  return answer.data;
}

// substitute puts the variables of Grafana into a text.
const substitute = (text, variables) => text.replace(/\$\{(\w+)(?::\w+)?\}|\$(\w+)/g, (whole, a, b) => variables[a ?? b] ?? whole);

const legendName = (target, labels) => target.legendFormat && target.legendFormat !== '__auto'
  ? target.legendFormat.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, k) => labels[k] ?? '')
  : Object.entries(labels).map(([k, v]) => `${k}=${v}`).join(' ');

async function data(panel, variables) {
  const series = [], exemplars = [];
  for (const target of panel.targets ?? []) {
    const expr = substitute(target.expr, variables);
    const found = target.instant && !target.range
      ? await ask('query', { query: expr, time: now })
      : await ask('query_range', { query: expr, start: from, end: now, step });
    for (const s of found.result) {
      series.push({ refId: target.refId, labels: s.metric, name: legendName(target, s.metric), points: s.values ?? [s.value] });
    }
    if (target.exemplar && panel.type === 'timeseries') {
      for (const s of await ask('query_exemplars', { query: expr, start: from, end: now })) exemplars.push(...s.exemplars);
    }
  }
  return { series, exemplars };
}

// resolve asks for the values of the variables of a board.
async function resolve(board) {
  const variables = { __rate_interval: `${Math.max(4 * scrape, step + scrape)}s`, __interval: `${step}s`, __range: `${range}s`, datasource: 'prometheus' };
  const form = document.getElementById('variables');
  for (const v of board.templating.list) {
    if (v.type !== 'query') continue;
    const text = v.query.query ?? v.query;
    const [, selector, label] = /^label_values\((.*),\s*(\w+)\)$/s.exec(substitute(text, variables)) ?? [];
    const values = await ask(`label/${label}/values`, { 'match[]': selector, start: from, end: now });
    const chosen = query.get(`var-${v.name}`) ?? '';
    variables[v.name] = chosen || v.allValue || '.*';
    const select = el('select', { name: `var-${v.name}`, onchange: () => form.submit() }, el('option', { value: '' }, 'All'));
    for (const value of values) select.append(el('option', { value, selected: value === chosen }, value));
    form.append(el('label', {}, `${v.label ?? v.name} `, select));
    if (!values.length) form.dataset.empty = 'yes';
  }
  for (const [name, value] of query) if (!name.startsWith('var-')) form.append(el('input', { type: 'hidden', name, value }));
  return variables;
}

async function place(panel, variables, column) {
  const { x, y, w, h } = panel.gridPos, at = { left: `${x * column}px`, top: `${y * (CELL + GAP)}px` };
  if (panel.type === 'row') return document.getElementById('grid').append(el('div', { className: 'row', style: at }, `▾ ${panel.title}`));
  const box = el('section', { className: 'panel', style: { ...at, width: `${w * column - GAP}px`, height: `${h * (CELL + GAP) - GAP}px` } },
    el('h2', { title: panel.description ?? '' }, panel.title));
  box.dataset.id = panel.id;
  document.getElementById('grid').append(box);
  const link = (url, value) => substitute(url.replaceAll('${__value.raw}', encodeURIComponent(value)), { __url_time_range: `range=${range}` })
    .replace(/\$\{\w+:queryparam\}&?/g, '');
  try {
    if (!draw[panel.type]) throw new Error(`no picture of panels of type ${panel.type}`);
    draw[panel.type](panel, box, { ...await data(panel, variables), link });
  } catch (error) {
    box.append(el('div', { className: 'broken' }, error.message));
    box.dataset.broken = error.message;
  }
}

async function main() {
  const uid = location.pathname.split('/').at(-1);
  const board = await (await fetch(`/boards/${uid}.json`)).json();
  document.getElementById('title').textContent = board.title;
  for (const other of await (await fetch('/boards')).json()) {
    document.getElementById('boards').append(el('a', { href: `/d/${other.uid}${location.search}` }, other.title));
  }
  const variables = await resolve(board), column = (document.body.clientWidth - 16) / 24;
  for (const panel of board.panels) await place(panel, variables, column);
  const bottom = Math.max(...board.panels.map(({ gridPos }) => gridPos.y + gridPos.h));
  document.getElementById('grid').style.height = `${bottom * (CELL + GAP) + GAP}px`;
}

main().catch((error) => {
  const grid = document.getElementById('grid');
  grid.dataset.broken = error.message;
  grid.append(el('div', { className: 'broken' }, error.message));
}).finally(() => { document.body.dataset.ready = 'yes'; });
