#include "report/style.h"

namespace thalweg::report {

const char kStyle[] = R"css(
:root { color-scheme: light dark; --paper: #fff; --panel: #f5f7f9; --text: #17212b; --soft: #4d5b68;
  --rule: #c9d2da; --ink: #0b62a8; --edge: #0a4c83; --warm: #b34700; --pale: #8fa3b3; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #12171c; --panel: #1b2229; --text: #e7edf2; --soft: #a9b7c3; --rule: #3a4651;
    --ink: #6cb6ff; --edge: #9accff; --warm: #ff9e57; --pale: #6f8292; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--text); overflow-wrap: anywhere;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1200px; margin: 0 auto; padding: 24px 16px 48px; }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 4px; }
h2 { font-size: 21px; line-height: 1.3; margin: 40px 0 8px; padding-top: 12px;
  border-top: 1px solid var(--rule); }
h3 { font-size: 17px; margin: 0 0 8px; }
p { margin: 0 0 12px; max-width: 75ch; }
small, .tick, .axis, .legend, dt, figcaption, .facts, thead th { font-size: 14px; }
.soft, small, dt, .tick, .axis, .legend { color: var(--soft); }
.soft { font-size: 14px; max-width: 110ch; }
.lead { font-size: 22px; line-height: 1.35; margin: 20px 0; max-width: 40em; }
.facts { display: flex; flex-wrap: wrap; gap: 8px 28px; margin: 0 0 12px; }
.facts div { min-width: 0; }
dt, dd { margin: 0; }
dd { font-size: 16px; font-weight: 600; font-variant-numeric: tabular-nums; }
.tiles dd { font-size: 20px; }
.panels, .histograms { display: grid; gap: 32px 28px;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 310px), 1fr)); }
.panels { margin: 16px 0 8px; }
.histograms { grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); }
data { white-space: nowrap; }
figure { margin: 0; min-width: 0; max-width: 560px; display: flex; flex-direction: column; }
figcaption { font-size: 15px; margin-bottom: 8px; flex: 1; }
.square { --beside: 96px; }
.roomy { --beside: 148px; }
.flat { --beside: 0px; }
.histogram { --beside: 56px; }
.plot { display: grid; grid-template-columns: var(--beside) minmax(0, 1fr); }
.frame { grid-column: -2; border: 1px solid var(--rule); background: var(--panel); line-height: 0; }
.frame svg { display: block; width: 100%; height: auto; aspect-ratio: 1; }
.flat .frame svg { aspect-ratio: 2; }
.histogram .frame svg { aspect-ratio: auto; height: 170px; }
.beside, .below { position: relative; }
.below { height: 24px; margin-left: var(--beside); container-type: inline-size; }
.below.long { height: 44px; }
.tick { position: absolute; white-space: nowrap; line-height: 20px; overflow-wrap: normal; }
.below .tick { top: 2px; width: max-content; transform: translateX(-50%); }
.below .tick.start { transform: none; }
.below .tick.end { transform: translateX(-100%); text-align: right; }
.long .tick { max-width: 48%; max-height: 40px; overflow: hidden; white-space: normal;
  overflow-wrap: anywhere; }
@container (max-width: 270px) { .tick:not(.start, .end) { display: none; } }
@container (max-width: 480px) { .long .tick:not(.start, .end) { display: none; } }
.beside .tick { right: 8px; max-width: calc(var(--beside) - 8px); overflow: hidden;
  text-overflow: ellipsis;
  transform: translateY(50%); }
.beside .tick.start { transform: none; }
.beside .tick.end { transform: translateY(100%); }
.axis { text-align: right; }
.axis.up { text-align: left; }
.boxes rect { fill: var(--ink); stroke: var(--edge); stroke-width: 1; stroke-opacity: .8;
  vector-effect: non-scaling-stroke; }
.boxes.many rect { stroke-width: .5; stroke-opacity: .4; }
.boxes rect:hover { fill-opacity: .6; }
.boxes rect.unknown { fill: none; stroke: var(--warm); stroke-width: 2; stroke-opacity: 1;
  stroke-dasharray: 6 5; pointer-events: stroke; }
.cells rect { fill: var(--ink); shape-rendering: crispEdges; }
.bars rect { fill: var(--ink); fill-opacity: .75; shape-rendering: crispEdges; }
.bars rect:hover { fill-opacity: 1; }
line { vector-effect: non-scaling-stroke; stroke-width: 2; }
line.mean { stroke: var(--text); }
line.ideal { stroke: var(--warm); stroke-dasharray: 7 5; }
.key { display: inline-block; width: 22px; height: 0; margin-right: 6px; vertical-align: middle;
  border-top: 2px solid var(--text); }
.key.ideal { border-top: 2px dashed var(--warm); }
.swatch { white-space: nowrap; margin-right: 10px; }
.swatch svg { width: 22px; height: 16px; vertical-align: -3px; border: 1px solid var(--rule); }
.scroll { overflow-x: auto; margin: 8px 0 16px; }
table { border-collapse: collapse; font-size: 15px; font-variant-numeric: tabular-nums;
  overflow-wrap: normal; }
th, td { padding: 6px 12px 6px 0; text-align: right; vertical-align: top;
  border-bottom: 1px solid var(--rule); }
th:last-child, td:last-child { padding-right: 0; }
th { font-weight: 600; }
tbody th { font-weight: 400; text-align: left; min-width: 11em; max-width: 26em; }
.text, thead th:first-child { text-align: left; }
thead th { vertical-align: bottom; color: var(--soft); }
.figures thead th { min-width: 6em; max-width: 14em; overflow-wrap: break-word; }
@media (max-width: 600px) { tbody th { min-width: 8em; } .figures thead th { min-width: 0; } }
small { display: block; max-width: 17em; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; }
th br { display: none; }
.bar { display: block; width: 100%; min-width: 90px; height: 6px; margin-top: 4px;
  background: var(--panel); }
.bar rect { fill: var(--ink); }
.bar.written rect, .bar.achieved rect { fill: var(--warm); }
.bar.before rect { fill: var(--pale); }
ul { padding-left: 20px; margin: 0 0 12px; max-width: 75ch; }
footer.soft { max-width: none; margin-top: 40px; padding-top: 12px;
  border-top: 1px solid var(--rule); }
@media print {
  :root { color-scheme: light; --paper: #fff; --panel: #fff; --text: #000; --soft: #333;
    --rule: #aaa; --ink: #0b62a8; --edge: #0a4c83; --warm: #b34700; --pale: #8fa3b3; }
  @page { margin: 14mm; }
  body { font-size: 14px; }
  main { max-width: none; padding: 0; }
  .panels, .histograms { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  figure, .histogram, tr, dl { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  .scroll { overflow: visible; }
  table, thead th { font-size: 13px; }
  th, td { padding: 4px 8px 4px 0; }
  tbody th { min-width: 0; }
  .figures thead th { min-width: 5em; overflow-wrap: anywhere; }
  .history { width: 100%; }
  .history small { max-width: 11em; font-size: 13px; }
  .bar { min-width: 30px; }
  .histogram .frame svg { height: 130px; }
}
)css";

}  // namespace thalweg::report
