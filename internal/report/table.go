package report

import (
	"strings"
	"unicode/utf8"
)

// style is the appearance of a cell on a terminal with colours.
type style string

const (
	normal style = ""
	dim    style = "2"
	bold   style = "1"
	red    style = "1;31"
	yellow style = "33"
)

// cell is a text in a lane.
type cell struct {
	text  string
	style style
}

// maxLines limits the terminal lines of a cell.
const maxLines = 4

// table draws rows of cells, one cell per lane.
type table struct {
	widths []int
	colour bool
	out    strings.Builder
}

const gutter = "│ "

// row draws one row. Each cell is wrapped within its lane.
func (t *table) row(cells []cell) {
	lines := make([][]string, len(cells))
	height := 0
	for i, c := range cells {
		lines[i] = wrap(c.text, t.widths[i], maxLines)
		height = max(height, len(lines[i]))
	}
	for l := range height {
		var b strings.Builder
		for i, c := range cells {
			if i > 0 {
				b.WriteString(t.paint(gutter, dim))
			}
			text := ""
			if l < len(lines[i]) {
				text = lines[i][l]
			}
			b.WriteString(t.paint(text, c.style))
			b.WriteString(strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(text)+1))
		}
		t.out.WriteString(strings.TrimRight(b.String(), " "))
		t.out.WriteByte('\n')
	}
}

// line draws text across all lanes.
func (t *table) line(text string, s style) { t.hang("", text, s) }

// hang draws text across all lanes, after a label, with a hanging indent.
func (t *table) hang(label, text string, s style) {
	indent := utf8.RuneCountInString(label)
	for _, l := range wrap(text, t.total()-indent, 1000) {
		t.out.WriteString(t.paint(label+l, s))
		t.out.WriteByte('\n')
		label = strings.Repeat(" ", indent)
	}
}

func (t *table) total() (n int) {
	for _, w := range t.widths {
		n += w + 1
	}
	return n + (len(t.widths)-1)*utf8.RuneCountInString(gutter) - 1
}

func (t *table) paint(text string, s style) string {
	if !t.colour || s == normal || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// wrap breaks a text at its spaces and keeps leading spaces. It cuts words that are too long, and text that
// does not fit into maxLines.
func wrap(text string, width, lines int) (out []string) {
	line := ""
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	for _, word := range strings.Fields(text) {
		word = cut(word, width-len(indent))
		switch {
		case line == "":
			line, indent = indent+word, ""
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		case len(out) == lines-1:
			return append(out, clip(line, width))
		default:
			out = append(out, line)
			line = word
		}
	}
	if line != "" {
		out = append(out, line)
	}
	return out
}

// clip ends a line with an ellipsis.
func clip(line string, width int) string {
	r := []rune(line)
	return string(r[:min(len(r), width-1)]) + "…"
}

// cut shortens a word in the middle, because names differ at their ends.
func cut(word string, width int) string {
	r := []rune(word)
	if len(r) <= width {
		return word
	}
	if width < 3 {
		return string(r[:width])
	}
	head := (width - 1) / 3
	return string(r[:head]) + "…" + string(r[len(r)-(width-1-head):])
}

// share divides a width by weights. The last share gets the remainder.
func share(width int, weights []int) []int {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	widths := make([]int, len(weights))
	left := width
	for i, w := range weights {
		widths[i] = width * w / sum
		left -= widths[i]
	}
	widths[len(widths)-1] += left
	return widths
}
