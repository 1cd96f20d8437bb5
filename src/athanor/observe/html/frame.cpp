#include "athanor/observe/html/frame.h"

#include <fmt/core.h>

#include "athanor/observe/html/text.h"

namespace athanor::observe::html {
namespace {

constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--back:#f6f7f9;--card:#fff;--ink:#111827;--muted:#4b5563;--rule:#e2e5ea;
--c0:#111827;--c1:#2563eb;--c2:#dc2626;--c3:#b45309;--c4:#047857;--c5:#7c3aed;--c6:#0e7490;--c7:#4d7c0f;--c8:#be185d}
@media(prefers-color-scheme:dark){:root{--back:#0d1117;--card:#161b22;--ink:#e6edf3;--muted:#9da7b3;--rule:#2b323b;
--c0:#e6edf3;--c1:#6ea8fe;--c2:#ff7b72;--c3:#e3a34a;--c4:#4ac58a;--c5:#b699ff;--c6:#4cc3d9;--c7:#a5d15a;--c8:#f778ba}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);font:15px/1.5 system-ui,'DejaVu Sans',sans-serif;
font-variant-numeric:tabular-nums}
main{max-width:1400px;margin:auto;padding:1.25rem clamp(.75rem,3vw,2rem)}
h1{font-size:1.6rem;margin:0;overflow-wrap:anywhere}h2{font-size:1.1rem;margin:2rem 0 .75rem}
header{display:flex;flex-wrap:wrap;align-items:baseline;gap:.25rem .9rem}
.status{border:1.5px solid;border-radius:99px;padding:.05rem .7rem;font-weight:600;font-size:.9rem}
.finished,.running{color:var(--c4)}.failed,.dead{color:var(--c2)}.interrupted{color:var(--c3)}
.muted,.none,.axis,.ends{color:var(--muted);font-size:.85rem;margin:.4rem 0}
.reason{color:var(--c2);margin:.5rem 0;overflow-wrap:anywhere}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(7.2rem,1fr));gap:.75rem;margin:1.1rem 0}
.figures div{min-width:0}.figures div,figure,.box{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:.7rem .85rem}
.figures span{display:block;color:var(--muted);font-size:.8rem}.figures b{font-size:1.25rem}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,30rem),1fr));gap:1rem}
figure{margin:0;min-width:0}figcaption{font-weight:600}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.1rem 1rem;margin:.2rem 0 1.4rem;padding:0;font-size:.83rem;color:var(--muted)}
.legend b{color:var(--ink);font-weight:600}.legend i{display:inline-block;width:.9em;height:3px;margin-right:.4em;vertical-align:middle}
.legend i.dot{width:.6em;height:.6em;border-radius:50%}
.plot{position:relative;height:220px;margin:0 .7rem 1.5rem 3.6rem}
.plot svg{width:100%;height:100%;display:block;overflow:visible}
.plot span{position:absolute;color:var(--muted);font-size:.75rem;white-space:nowrap;line-height:1}
.y{right:calc(100% + .5rem);transform:translateY(-50%)}.x{top:calc(100% + .5rem);transform:translateX(-50%)}
.phase{bottom:calc(100% + .3rem)}
path{fill:none;vector-effect:non-scaling-stroke}.l{stroke-width:1.6;stroke-linejoin:round}
.d{stroke-width:7;stroke-linecap:round}.grid{stroke:var(--rule)}
.mark{stroke:var(--muted);stroke-dasharray:2 3}.fail{stroke:var(--c2);stroke-dasharray:4 3;opacity:.65}
.faint{opacity:.6}.fine{stroke-width:.9}.axis{text-align:right;margin:0}
.c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.c3{stroke:var(--c3)}.c4{stroke:var(--c4)}
.c5{stroke:var(--c5)}.c6{stroke:var(--c6)}.c7{stroke:var(--c7)}.c8{stroke:var(--c8)}
.b0{background:var(--c0)}.b1{background:var(--c1)}.b2{background:var(--c2)}.b3{background:var(--c3)}.b4{background:var(--c4)}
.b5{background:var(--c5)}.b6{background:var(--c6)}.b7{background:var(--c7)}.b8{background:var(--c8)}
.lane{display:grid;grid-template-columns:8.2rem 1fr;align-items:center;font-size:.85rem;color:var(--muted)}
.lane b{color:var(--ink)}.track{position:relative;height:1.7rem;border-bottom:1px solid var(--rule);margin:0 8px}
.track i{position:absolute;top:50%;width:11px;height:11px;margin:-5.5px;border-radius:50%;background:var(--c0)}
.track i.bad{background:var(--c2);border-radius:2px;transform:rotate(45deg)}.track i.good{background:var(--c4)}
.track i.size{background:var(--c5)}.track i.order{background:var(--c1);border-radius:2px}.track i.warn{background:var(--c3)}
.track i.save{background:var(--c6);width:5px;margin-left:-2.5px;border-radius:1px}
.ends{display:flex;flex-wrap:wrap;justify-content:space-between;gap:0 1rem}
table{border-collapse:collapse;width:100%;font-size:.88rem}
th{text-align:left;color:var(--muted);font-weight:600}th,td{padding:.35rem .6rem;border-bottom:1px solid var(--rule);vertical-align:top;overflow-wrap:anywhere}
.n{text-align:right;white-space:nowrap}
.bars{display:grid;grid-template-columns:auto 1fr auto;gap:.4rem .8rem;align-items:center;font-size:.9rem}
.bars i{display:block;height:.8rem;min-width:2px;border-radius:3px;background:var(--c2)}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:1rem}
.facts h3{margin:0 0 .4rem;font-size:.95rem}.facts th{width:50%;font-weight:400}.facts>:last-child{grid-column:1/-1}
.incidents th:nth-child(3),.incidents th:nth-child(4),.incidents th:nth-child(n+6){text-align:right}
@media(max-width:720px){.incidents thead{display:none}.incidents tr{display:block;padding:.5rem 0;border-bottom:2px solid var(--rule)}
.incidents td{display:grid;grid-template-columns:7.5rem 1fr;border:0;padding:.1rem 0;text-align:left;white-space:normal}
.incidents td::before{content:attr(data-label);color:var(--muted)}.lane{grid-template-columns:7rem 1fr}}
@media print{:root{color-scheme:light}body{background:#fff;font-size:11px}main{padding:0}figure,.box,tr{break-inside:avoid}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}.charts{grid-template-columns:1fr 1fr}.plot{height:150px}}
)";

}  // namespace

std::string page_start(const std::string& title, const std::string& status, const std::string& time,
                       const std::string& extra_style) {
  std::string text =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\"/>\n<title>" +
      escaped(title) + "</title><style>" + kStyle + extra_style + "</style></head>\n<body><main>\n";
  text += "<header><h1>" + escaped(title) + "</h1>";
  if (!status.empty()) text += fmt::format("<span class=\"status {0}\">{0}</span>", escaped(status));
  return text + "<span class=\"muted\">" + escaped(time) + "</span></header>\n";
}

std::string page_end() {
  return "</main></body></html>\n";
}

std::string figures(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string text = "<section class=\"figures\">";
  for (const auto& [name, value] : rows)
    text += "<div><span>" + escaped(name) + "</span><b>" + escaped(value) + "</b></div>";
  return text + "</section>\n";
}

}  // namespace athanor::observe::html
