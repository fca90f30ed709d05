// Draws the report's charts with Chart.js: each <canvas data-chart> describes itself as JSON (html_report.cc).
'use strict';
(() => {
  const number = new Intl.NumberFormat('en', {maximumSignificantDigits: 4});
  const dashes = [[], [7, 3], [2, 3], [10, 3, 2, 3]];  // told apart without colours
  const drawn = new Map();

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();

  const options = (chart) => {
    const axis = (title, more) => ({
      title: {display: true, text: title, color: colour('text')},
      ticks: {color: colour('faint'), maxRotation: 0, callback: (value) => number.format(value)},
      grid: {color: colour('grid'), borderColor: colour('line')},
      ...more,
    });
    return {
      animation: false,
      maintainAspectRatio: false,
      interaction: {mode: 'index', intersect: false},
      scales: {
        x: axis(chart.x, {type: 'linear', min: chart.x_min, max: chart.x_max}),
        y: axis(chart.y, {beginAtZero: true, stacked: chart.stacked, max: chart.y_max}),
      },
      plugins: {
        legend: {position: 'bottom', labels: {color: colour('text'), boxWidth: 28, boxHeight: chart.stacked ? 10 : 0}},
        tooltip: {
          callbacks: {
            title: (items) => items.length ? chart.x + ': ' + number.format(items[0].parsed.x) : '',
            label: (item) => item.dataset.label + ': ' + number.format(item.parsed.y),
          },
        },
      },
    };
  };

  const datasets = (chart) => chart.series.map((series, index) => ({
    label: series.name,
    data: series.values.map((value, at) => ({x: chart.x_values[at], y: value})),
    borderColor: colour('c' + series.colour),
    backgroundColor: colour('c' + series.colour) + (chart.stacked ? series.faint ? '40' : 'c0' : ''),
    borderDash: chart.stacked ? [] : dashes[series.colour % dashes.length],
    borderWidth: chart.stacked || series.faint ? 1 : 2,
    pointRadius: chart.x_values.length > 60 || (chart.stacked || series.faint) && chart.x_values.length > 1 ? 0 : 2.5,
    pointHitRadius: 6,
    fill: chart.stacked ? (index === 0 ? 'origin' : '-1') : false,
  }));

  const draw = (canvas) => {
    if (canvas.offsetParent === null || drawn.has(canvas)) return;  // within a closed part; drawn when it opens
    const chart = JSON.parse(canvas.dataset.chart);
    const config = {type: 'line', data: {datasets: datasets(chart)}, options: options(chart)};
    drawn.set(canvas, [chart, new Chart(canvas, config)]);
  };

  const all = () => document.querySelectorAll('canvas[data-chart]').forEach(draw);
  document.querySelectorAll('details').forEach((part) => part.addEventListener('toggle', all));
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    for (const [chart, shown] of drawn.values()) {
      shown.data.datasets = datasets(chart);
      shown.options = options(chart);
      shown.update();
    }
  });
  all();
})();
