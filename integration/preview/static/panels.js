// The panels that the boards have.
import { color, format, paletteColor, threshold } from './values.js';

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) key === 'style' ? Object.assign(made.style, value) : made[key] = value;
  made.append(...children);
  return made;
}

const defaults = (panel) => panel.fieldConfig?.defaults ?? {};

// override is a property that the board sets for one name.
const override = (panel, name, id) => panel.fieldConfig?.overrides
  ?.find((o) => o.matcher.id === 'byName' && o.matcher.options === name && o.properties.some((p) => p.id === id))
  ?.properties.find((p) => p.id === id)?.value;

const numbers = (series) => series.points.map(([, v]) => +v).filter((v) => !Number.isNaN(v));

export function stat(panel, box, { series }) {
  const all = series.flatMap(numbers);
  if (!all.length) return empty(box);
  const { unit, decimals, thresholds } = defaults(panel);
  const value = all.at(-1), shade = threshold(thresholds?.steps, value);
  const filled = panel.options?.colorMode === 'background';
  box.append(el('div', { className: 'stat', style: { color: filled ? '#fff' : shade } }, format(value, unit, decimals)));
  if (filled) box.style.background = shade;
}

export function timeseries(panel, box, { series, exemplars }) {
  if (!series.some((s) => numbers(s).length)) return empty(box);
  const { unit, custom = {}, min, max } = defaults(panel);
  const times = [...new Set(series.flatMap((s) => s.points.map(([t]) => t)))].sort((a, b) => a - b);
  const raw = series.map((s) => {
    const at = new Map(s.points.map(([t, v]) => [t, +v]));
    return times.map((t) => Number.isFinite(at.get(t)) ? at.get(t) : null);
  });
  const stacked = custom.stacking?.mode === 'normal';
  const drawn = raw.map((column) => column.slice());
  if (stacked) for (let i = 1; i < drawn.length; i++) drawn[i] = drawn[i].map((v, j) => (v ?? 0) + (drawn[i - 1][j] ?? 0));
  const shades = series.map((s, i) => {
    const fixed = override(panel, s.name, 'color')?.fixedColor;
    return fixed ? color(fixed) : paletteColor(i);
  });
  const bars = custom.drawStyle === 'bars';
  const alpha = Math.round(2.55 * (custom.fillOpacity ?? 0)).toString(16).padStart(2, '0');
  const order = stacked ? series.map((_, i) => i).reverse() : series.map((_, i) => i);
  const plot = el('div', { className: 'plot' }), legend = legendOf(panel, series, raw, shades);
  box.append(plot, legend);
  const scale = (_, low, high) => [min ?? Math.min(low ?? 0, 0), max ?? (high > 0 ? high * 1.1 : 1)];
  new uPlot({
    width: plot.clientWidth, height: Math.max(60, plot.clientHeight), legend: { show: false }, cursor: { show: false },
    scales: { y: { range: scale } },
    series: [{}, ...order.map((i) => ({
      stroke: shades[i], width: custom.lineWidth ?? 1, fill: alpha === '00' ? undefined : shades[i] + alpha,
      paths: bars ? uPlot.paths.bars({ size: [0.9, 40] }) : uPlot.paths.linear(), points: { show: false }, spanGaps: false,
    }))],
    axes: [{ stroke: '#8e8e9a', grid: { stroke: '#22252b' } },
      { stroke: '#8e8e9a', grid: { stroke: '#22252b' }, size: 72, values: (_, all) => all.map((v) => format(v, unit)) }],
    hooks: { draw: [(u) => { limits(u, defaults(panel)); diamonds(u, exemplars); }] },
  }, [times, ...order.map((i) => drawn[i])], plot);
  mostExpensive(plot, exemplars, unit);
}

function legendOf(panel, series, raw, shades) {
  const { unit, decimals } = defaults(panel);
  const calcs = panel.options?.legend?.calcs ?? [];
  const calc = { lastNotNull: (v) => v.at(-1), max: (v) => Math.max(...v), mean: (v) => v.reduce((a, b) => a + b, 0) / v.length, sum: (v) => v.reduce((a, b) => a + b, 0) };
  const names = { lastNotNull: 'Last', max: 'Max', mean: 'Mean', sum: 'Total' };
  const table = el('table', {}, el('tr', {}, el('th', {}, 'Name'), ...calcs.map((c) => el('th', {}, names[c] ?? c))));
  series.forEach((s, i) => {
    const known = raw[i].filter((v) => v != null);
    table.append(el('tr', {}, el('td', {}, el('span', { className: 'swatch', style: { background: shades[i] } }), s.name),
      ...calcs.map((c) => el('td', {}, format(known.length ? calc[c]?.(known) : null, unit, decimals)))));
  });
  return el('div', { className: 'legend', style: { maxHeight: `${Math.min(6, series.length + 1) * 17}px` } }, table);
}

// limits draws the thresholds of a panel that shows them.
function limits(u, { thresholds, custom = {} }) {
  if (!custom.thresholdsStyle || custom.thresholdsStyle.mode === 'off') return;
  for (const step of thresholds?.steps ?? []) {
    if (step.value == null || step.value > u.scales.y.max) continue;
    const y = u.valToPos(step.value, 'y', true);
    u.ctx.save();
    u.ctx.strokeStyle = color(step.color);
    u.ctx.setLineDash([8, 6]);
    u.ctx.beginPath();
    u.ctx.moveTo(u.bbox.left, y);
    u.ctx.lineTo(u.bbox.left + u.bbox.width, y);
    u.ctx.stroke();
    u.ctx.restore();
  }
}

function diamonds(u, exemplars) {
  u.ctx.fillStyle = '#ff5cffcc';
  for (const { timestamp, value } of exemplars) {
    const x = u.valToPos(timestamp, 'x', true), y = u.valToPos(Math.min(+value, u.scales.y.max), 'y', true);
    if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) continue;
    u.ctx.beginPath();
    for (const [dx, dy] of [[0, -5], [5, 0], [0, 5], [-5, 0]]) u.ctx.lineTo(x + dx, y + dy);
    u.ctx.fill();
  }
}

function mostExpensive(plot, exemplars, unit) {
  if (!exemplars.length) return;
  const top = exemplars.reduce((a, b) => +a.value > +b.value ? a : b);
  plot.append(el('div', { className: 'exemplars' }, `${exemplars.length} exemplars, highest ${format(+top.value, unit)}: trace ${(top.labels.trace_id ?? '').slice(0, 8)}…`));
}

export function heatmap(panel, box, { series }) {
  const unit = panel.options?.yAxis?.unit ?? defaults(panel).unit;
  const rows = series.map((s) => ({ le: s.labels.le === '+Inf' ? Infinity : +s.labels.le, at: new Map(s.points.map(([t, v]) => [t, +v])) }))
    .sort((a, b) => a.le - b.le);
  const times = [...new Set(series.flatMap((s) => s.points.map(([t]) => t)))].sort((a, b) => a - b);
  const cells = rows.map((row, i) => times.map((t) => Math.max(0, (row.at.get(t) ?? 0) - (i ? rows[i - 1].at.get(t) ?? 0 : 0))));
  const most = Math.max(...cells.flat());
  if (!(most > 0)) return empty(box);
  const plot = el('div', { className: 'plot' }), canvas = el('canvas', { className: 'heat' });
  box.append(plot);
  canvas.width = plot.clientWidth;
  canvas.height = plot.clientHeight;
  plot.append(canvas);
  const ctx = canvas.getContext('2d'), left = 70, bottom = 18;
  const w = (canvas.width - left - 8) / times.length, h = (canvas.height - bottom) / rows.length;
  ctx.font = '11px system-ui, sans-serif';
  cells.forEach((row, i) => {
    const y = canvas.height - bottom - (i + 1) * h;
    row.forEach((v, j) => {
      if (v <= 1e-9) return;
      ctx.fillStyle = `hsl(28 95% ${15 + 60 * Math.sqrt(v / most)}%)`;
      ctx.fillRect(left + j * w, y, Math.max(1, w - 1), Math.max(1, h - 1));
    });
    ctx.fillStyle = '#8e8e9a';
    ctx.fillText(rows[i].le === Infinity ? '+Inf' : format(rows[i].le, unit), 6, y + h / 2 + 4);
  });
  for (let k = 0; k < 5; k++) {
    const t = times[Math.floor(k * (times.length - 1) / 4)];
    ctx.fillText(new Date(t * 1000).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' }), Math.min(left + k * (canvas.width - left) / 4, canvas.width - 34), canvas.height - 4);
  }
}

export function table(panel, box, { series, link }) {
  const { renameByName = {}, excludeByName = {} } = panel.transformations?.find((t) => t.id === 'organize')?.options ?? {};
  const many = new Set(series.map((s) => s.refId)).size > 1;
  const rows = new Map(), labels = new Set(), values = new Set();
  for (const s of series) {
    const shown = Object.entries(s.labels).filter(([k]) => !excludeByName[k]);
    shown.forEach(([k]) => labels.add(k));
    const column = many ? `Value #${s.refId}` : 'Value';
    values.add(renameByName[column] ?? column);
    const key = s.labels.operation ?? JSON.stringify(s.labels);
    const row = rows.get(key) ?? { labels: {}, values: {} };
    Object.assign(row.labels, Object.fromEntries(shown));
    row.values[renameByName[column] ?? column] = +s.points.at(-1)[1];
    rows.set(key, row);
  }
  if (!rows.size) return empty(box);
  const body = el('table', {}, el('tr', {}, ...[...labels, ...values].map((k) => el('th', {}, renameByName[k] ?? k))));
  for (const row of rows.values()) {
    body.append(el('tr', {}, ...[...labels].map((k) => labelCell(panel, k, row.labels[k], link)), ...[...values].map((k) => valueCell(panel, k, row.values[k]))));
  }
  box.append(el('div', { className: 'scroll' }, body));
}

function labelCell(panel, name, value = '', link) {
  const links = override(panel, name, 'links');
  return el('td', {}, links ? el('a', { href: link(links[0].url, value) }, value) : value);
}

function valueCell(panel, name, value) {
  const set = (id) => override(panel, name, id) ?? defaults(panel)[id];
  const cell = el('td', {}, format(value, set('unit'), set('decimals')));
  if (override(panel, name, 'custom.cellOptions')?.type === 'color-background' && value != null && !Number.isNaN(value)) {
    Object.assign(cell.style, { background: threshold(set('thresholds')?.steps, value), color: '#fff', fontWeight: 600 });
  }
  return cell;
}

export function empty(box) {
  box.append(el('div', { className: 'empty' }, 'No data'));
  box.dataset.empty = 'yes';
}
