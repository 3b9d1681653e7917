"""How the page of a report looks: in light and in dark, on a desk, on a phone and on paper."""

from __future__ import annotations

__all__ = ["DARK", "LIGHT", "STYLE"]

# What is written on what: the suite computes the contrast of each pair.
LIGHT = {
    "paper": "#ffffff", "ink": "#1b1f24", "quiet": "#57606a", "rule": "#d0d7de", "link": "#0a58ca",
    "bar": "#cfe0f1", "edge": "#3d6f9e", "sure": "#8a2d00",
    "up1": "#e3eefa", "up2": "#bcd8f2", "up3": "#8fbce8",
    "down1": "#fbe9e1", "down2": "#f6ccb8", "down3": "#eea586",
}  # fmt: skip
DARK = {
    "paper": "#14181d", "ink": "#e6edf3", "quiet": "#9aa6b2", "rule": "#3a434d", "link": "#7ab7ff",
    "bar": "#24476b", "edge": "#6ea8dc", "sure": "#ffb380",
    "up1": "#1b2c3e", "up2": "#1f4064", "up3": "#24558a",
    "down1": "#3a241b", "down2": "#5c3018", "down3": "#7d3f18",
}  # fmt: skip


def _colours(scheme: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in scheme.items())


STYLE = f"""
:root{{color-scheme:light dark;{_colours(LIGHT)}}}
@media screen and (prefers-color-scheme:dark){{:root{{{_colours(DARK)}}}}}
*{{box-sizing:border-box}}
html{{scroll-behavior:smooth}}
@media (prefers-reduced-motion:reduce){{html{{scroll-behavior:auto}}}}
body{{margin:0 auto;max-width:72rem;padding:1rem 1.25rem 4rem;background:var(--paper);color:var(--ink);
font:1rem/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;overflow-wrap:anywhere}}
h1{{font-size:1.8rem;line-height:1.2;margin:.5rem 0}}
h2{{font-size:1.3rem;margin:2.5rem 0 .5rem;padding-top:.75rem;border-top:1px solid var(--rule)}}
h3{{font-size:1.1rem;margin:0 0 .25rem}}
p,li,dd{{max-width:44rem}}
a{{color:var(--link)}}
a:focus-visible,summary:focus-visible,.scroll:focus-visible{{outline:3px solid var(--link);outline-offset:2px}}
.skip{{position:absolute;left:-100vw}}
.skip:focus{{position:static}}
.quiet{{color:var(--quiet)}}
.warning{{border:2px solid var(--sure);padding:.5rem .75rem;font-weight:bold}}
nav ul{{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;list-style:none;padding:0;margin:.5rem 0}}
nav a{{display:inline-block;padding:.3rem 0}}
.scroll,.plain{{overflow-x:auto}}
.scroll td,.plain td{{white-space:nowrap}}
th{{overflow-wrap:normal}}
tbody th{{min-width:6rem;max-width:13rem;overflow-wrap:anywhere}}
table{{font-variant-numeric:tabular-nums;font-size:.95rem}}
.scroll table{{font-size:.875rem}}
.scroll tbody th{{min-width:7rem}}
.column{{display:grid;grid-template-columns:minmax(0,1fr);gap:.5rem 2rem;padding:1rem 0;
border-bottom:1px solid var(--rule)}}
@media (min-width:52rem){{.column{{grid-template-columns:minmax(0,7fr) minmax(0,6fr)}}}}
.column>header{{grid-column:1/-1}}
figure{{margin:0}}
figcaption{{color:var(--quiet);font-size:.9rem}}
svg{{display:block;width:100%;max-width:34rem;height:auto;font-size:12px}}
svg text{{fill:var(--ink)}}
svg .bar{{fill:var(--bar);stroke:var(--edge);stroke-width:1}}
svg .rule{{stroke:var(--rule);stroke-width:1}}
svg .axis{{stroke:var(--ink);stroke-width:1}}
svg .sure{{stroke:var(--sure);stroke-width:1.8}}
svg .thick{{stroke-width:3.5}}
svg .dot{{fill:var(--ink);stroke:var(--paper);stroke-width:1}}
summary{{cursor:pointer;padding:.3rem 0;color:var(--link)}}
.matrix{{border-collapse:separate;border-spacing:2px}}
.matrix caption{{text-align:left;font-weight:bold}}
.matrix th{{font-weight:normal;text-align:left;padding:.2rem .5rem}}
.matrix thead th{{max-width:8rem;overflow-wrap:anywhere;vertical-align:bottom;text-align:right}}
.matrix td{{text-align:right;padding:.3rem .6rem;color:var(--ink)}}
.matrix small{{display:block;font-size:.9em}}
.up1{{background:var(--up1)}}.up2{{background:var(--up2)}}.up3{{background:var(--up3)}}
.down1{{background:var(--down1)}}.down2{{background:var(--down2)}}.down3{{background:var(--down3)}}
@media print{{body{{max-width:none;padding:0;font-size:10pt}}nav,.skip{{display:none}}
.column,figure,tr{{break-inside:avoid}}h2,h3{{break-after:avoid}}.scroll,.plain{{overflow:visible}}
.scroll table{{font-size:7.5pt}}
.scroll td,.plain td{{white-space:normal}}
.column{{grid-template-columns:minmax(0,1fr) minmax(0,1fr)}}
*{{print-color-adjust:exact;-webkit-print-color-adjust:exact}}}}
"""
