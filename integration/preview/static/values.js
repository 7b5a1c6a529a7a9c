// How values, thresholds and colours of a board are read.

const NAMED = {
  green: '#73bf69', yellow: '#fade2a', orange: '#ff9830', red: '#f2495c', blue: '#5794f2', purple: '#b877d9',
};
const SHADES = {
  green: ['#19730e', '#37872d', '#56a64b', '#96d98d', '#c8f2c2'], yellow: ['#cc9d00', '#e0b400', '#f2cc0c', '#ffee52', '#fff899'],
  orange: ['#e55400', '#fa6400', '#ff780a', '#ffb357', '#ffcb7d'], red: ['#ad0317', '#c4162a', '#e02f44', '#ff7383', '#ffa6b0'],
  blue: ['#1250b0', '#1f60c4', '#3274d9', '#8ab8ff', '#c0d8ff'], purple: ['#7c2ea3', '#8f3bb8', '#a352cc', '#ca95e5', '#deb6f2'],
};
const SHADE = { 'super-dark': 0, dark: 1, 'semi-dark': 2, light: 3, 'super-light': 4 };
const PALETTE = ['#73bf69', '#f2cc0c', '#8ab8ff', '#ff780a', '#f2495c', '#5794f2', '#b877d9', '#705da0', '#37872d', '#fade2a', '#447ebc', '#c15c17'];

export const paletteColor = (i) => PALETTE[i % PALETTE.length];

export function color(name) {
  const [, shade, base] = /^(?:(super-dark|dark|semi-dark|light|super-light)-)?(\w+)$/.exec(name) || [];
  return shade ? SHADES[base]?.[SHADE[shade]] ?? name : NAMED[base] ?? name;
}

// threshold is the colour of a value by its steps, the first of which is for all that is lower.
export function threshold(steps, value) {
  let found = 'green';
  for (const step of steps || []) if (step.value == null || value >= step.value) found = step.color;
  return color(found);
}

const trim = (x, decimals) => decimals == null ? String(+x.toPrecision(3)) : x.toFixed(decimals);

function scaled(value, steps, decimals) {
  const [size, suffix] = steps.find(([size]) => Math.abs(value) >= size) ?? steps.at(-1);
  return trim(value / size, decimals) + suffix;
}

const SECONDS = [[86400, ' d'], [3600, ' h'], [60, ' min'], [1, ' s'], [1e-3, ' ms'], [1e-6, ' µs']];
const SHORT = [[1e9, ' Bil'], [1e6, ' Mil'], [1e3, ' K'], [1, '']];
const BYTES = [[2 ** 30, ' GiB'], [2 ** 20, ' MiB'], [2 ** 10, ' KiB'], [1, ' B']];
const plain = (steps) => (v, d) => scaled(v, steps, d);
const UNITS = {
  percentunit: (v, d) => trim(v * 100, d) + ' %', s: (v, d) => v === 0 ? '0 s' : scaled(v, SECONDS, d), short: plain(SHORT), none: plain(SHORT),
  bytes: plain(BYTES), binBps: (v, d) => plain(BYTES)(v, d) + '/s',
  reqps: (v, d) => scaled(v, SHORT, d) + ' req/s', ops: (v, d) => scaled(v, SHORT, d) + ' ops/s',
};

export function format(value, unit, decimals) {
  if (value == null || Number.isNaN(value)) return '–';
  return (UNITS[unit] ?? UNITS.short)(value, decimals);
}
