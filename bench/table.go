package main

import (
	"fmt"
	"strings"
	"time"
)

// state is how far a part of bench all has come.
type state int

const (
	pending state = iota // not started
	complete
	failed
	interrupted // started, and ended by the user
)

// result is a part of bench all and what it has measured.
type result struct {
	section string   // the heading of docs/benchmarks.md that it belongs to
	args    []string // the arguments of `go run ./bench`
	state   state
	reason  string // why it failed
	took    time.Duration
	loads   [2]string // the load average of the machine before and after
	figures figures
}

func (r result) command() string { return "go run ./bench " + strings.Join(r.args, " ") }

// table is everything that bench all writes.
type table struct {
	title   string // the sizes
	machine string
	results []result
}

// markdown returns the whole table: the ratios, then a section of figures for each part of the page, then what is missing.
func (t table) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Measurements: %s\n\n%s\n", t.title, t.machine)
	t.writeRatios(&b)
	section := ""
	for _, r := range t.results {
		if r.state == pending {
			continue
		}
		if r.section != section {
			section = r.section
			fmt.Fprintf(&b, "\n## %s\n\n| Measurement | Command | Figure | Load before; after |\n|---|---|---|---|\n", section)
		}
		r.writeRows(&b)
	}
	t.writeMissing(&b)
	return b.String()
}

// writeRatios writes one table for each group of ratios, with a row for each.
func (t table) writeRatios(b *strings.Builder) {
	ratios := t.ratios()
	if len(ratios) == 0 {
		return
	}
	b.WriteString("\n## Compared with kube-apiserver, etcd and KWOK\n\nMore than 1 is better for rehearse. Both run in alternation, so the ratios hold on other machines too.\n" +
		"The controllers are those of kube-controller-manager, and kube-scheduler.\n\n![Ratios of each round](ratios.svg)\n")
	for n, r := range ratios {
		if startsGroup(ratios, n) {
			fmt.Fprintf(b, "\n| %s | Median | Rounds |\n|---|---|---|\n", cell(r.group))
		}
		var rounds []string
		for _, value := range r.rounds {
			rounds = append(rounds, fmt.Sprintf("%.2f", value))
		}
		fmt.Fprintf(b, "| %s | %.2f | %s |\n", cell(r.name), r.median(), strings.Join(rounds, ", "))
	}
}

func (t table) ratios() (all []ratio) {
	for _, r := range t.results {
		all = append(all, r.figures.ratios...)
	}
	return all
}

// writeRows writes a row for each figure of a part. The first row names the command.
func (r result) writeRows(b *strings.Builder) {
	command, load := "`"+r.command()+"`", r.loads[0]+"; "+r.loads[1]
	row := func(name, text string) {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", cell(name), command, cell(text), load)
		command, load = "the same", ""
	}
	for _, f := range r.figures.rows {
		row(f.name, f.text)
	}
	switch r.state {
	case failed:
		row("**failed**", r.reason)
	case interrupted:
		row("**interrupted**", fmt.Sprintf("after %s; figures are missing", r.took.Round(time.Second)))
	}
}

// writeMissing lists the parts without a complete result.
func (t table) writeMissing(b *strings.Builder) {
	missing := t.missing()
	if len(missing) == 0 {
		return
	}
	b.WriteString("\n## Missing\n\n")
	for _, line := range missing {
		fmt.Fprintf(b, "- %s\n", line)
	}
}

// missing returns a line for each part without a complete result.
func (t table) missing() (lines []string) {
	for _, r := range t.results {
		switch r.state {
		case pending:
			lines = append(lines, fmt.Sprintf("`%s`: not started", r.command()))
		case failed:
			lines = append(lines, fmt.Sprintf("`%s`: failed: %s", r.command(), firstLine(r.reason)))
		case interrupted:
			lines = append(lines, fmt.Sprintf("`%s`: interrupted", r.command()))
		}
	}
	return lines
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// maxCell is the length to which a cell is cut: the reason of a failure may be the log of a server.
const maxCell = 400

// cell makes a text one line that does not end the cell of a table.
func cell(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > maxCell {
		text = string(runes[:maxCell]) + " …"
	}
	return strings.ReplaceAll(text, "|", `\|`)
}
