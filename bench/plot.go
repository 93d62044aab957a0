package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// The measures of the plot, in pixels. The axis is logarithmic, so that half as fast and twice as fast are equally far from 1.
const (
	plotWidth  = 760
	plotLeft   = 230 // the names of the ratios, and those of their groups above them
	plotRight  = 80  // the medians
	plotTop    = 46
	plotRow    = 38
	plotBottom = 52 // the values of the axis, and the legend below them
)

// plotStyle colours the plot for a light and a dark page.
const plotStyle = `<style>
  text { font: 14px system-ui, sans-serif; fill: #1f2328 }
  .small { font-size: 12px; fill: #59636e }
  .title, .group { font-weight: 600 }
  .grid { stroke: #d1d9e0 }
  .equal { stroke: #59636e; stroke-dasharray: 4 3 }
  .round { fill: #0969da; fill-opacity: .55 }
  .median { stroke: #0969da; stroke-width: 4; stroke-linecap: round }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc }
    .small { fill: #9198a1 }
    .grid { stroke: #3d444d }
    .equal { stroke: #9198a1 }
    .round { fill: #58a6ff }
    .median { stroke: #58a6ff }
  }
</style>
`

// plot draws the ratios as SVG: a row for each group, and below it a row for each of its ratios, with a dot for each round and a
// bar at the median.
func plot(ratios []ratio) string {
	low, high := plotRange(ratios)
	x := func(value float64) float64 {
		share := (math.Log2(value) - float64(low)) / float64(high-low)
		return plotLeft + share*(plotWidth-plotLeft-plotRight)
	}
	bottom := plotTop + plotRow*(len(ratios)+countGroups(ratios))
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="title desc">`+"\n",
		plotWidth, bottom+plotBottom, plotWidth, bottom+plotBottom)
	fmt.Fprintf(&b, "<title id=\"title\">rehearse compared with kube-apiserver, etcd and KWOK</title>\n<desc id=\"desc\">%s</desc>\n", html.EscapeString(plotText(ratios)))
	b.WriteString(plotStyle)
	fmt.Fprintf(&b, `<text class="title" x="%d" y="20">rehearse compared with kube-apiserver, etcd and KWOK</text>`+"\n", 8)
	for n := low; n <= high; n++ {
		class := "grid"
		if n == 0 {
			class = "equal"
		}
		at := x(math.Exp2(float64(n)))
		fmt.Fprintf(&b, `<line class="%s" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`+"\n", class, at, plotTop-8, at, bottom)
		fmt.Fprintf(&b, `<text class="small" x="%.1f" y="%d" text-anchor="middle">%g×</text>`+"\n", at, bottom+18, math.Exp2(float64(n)))
	}
	y := plotTop - plotRow/2
	for n, r := range ratios {
		if startsGroup(ratios, n) {
			y += plotRow
			fmt.Fprintf(&b, `<text class="group" x="%d" y="%d">%s</text>`+"\n", 8, y+5, html.EscapeString(r.group))
		}
		y += plotRow
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", plotLeft-16, y+5, html.EscapeString(r.name))
		for _, value := range r.rounds {
			if drawable(value) {
				fmt.Fprintf(&b, `<circle class="round" cx="%.1f" cy="%d" r="5"/>`+"\n", x(value), y)
			}
		}
		if median := r.median(); drawable(median) {
			fmt.Fprintf(&b, `<line class="median" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`+"\n", x(median), y-11, x(median), y+11)
			fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%.2f×</text>`+"\n", plotWidth-12, y+5, median)
		} else {
			fmt.Fprintf(&b, `<text class="small" x="%d" y="%d" text-anchor="end">not measured</text>`+"\n", plotWidth-12, y+5)
		}
	}
	fmt.Fprintf(&b, `<text class="small" x="%d" y="%d">dots: rounds; bar: median; right of 1×: better</text>`+"\n</svg>\n", 8, bottom+40)
	return b.String()
}

// drawable reports whether a value has a place on a logarithmic axis. A ratio of figures that the system does not provide
// (memory and CPU without /proc) is not a number.
func drawable(value float64) bool { return value > 0 && !math.IsInf(value, 1) }

// plotRange returns the powers of two around 1 and all values.
func plotRange(ratios []ratio) (low, high int) {
	low, high = -1, 1
	for _, r := range ratios {
		for _, value := range r.rounds {
			if drawable(value) {
				low, high = min(low, int(math.Floor(math.Log2(value)))), max(high, int(math.Ceil(math.Log2(value))))
			}
		}
	}
	return low, high
}

// plotText is the content of the plot in words, for readers who do not see it.
func plotText(ratios []ratio) string {
	var parts []string
	for _, r := range ratios {
		parts = append(parts, fmt.Sprintf("%s, %s: median %.2f of %d rounds", r.group, r.name, r.median(), len(r.rounds)))
	}
	return strings.Join(parts, "; ")
}
