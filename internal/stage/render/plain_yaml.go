package render

import (
	"strconv"
	"strings"
)

// plainYAML reads the YAML that templates usually render: block mappings and
// sequences of plain, quoted and numeric scalars, one to a line. ok is false for
// everything else, also for what is wrong, and the library reads that: what is read
// here is read as the library does (FuzzPlainYAML), in a tenth of the time.
func plainYAML(text []byte) (value any, ok bool) {
	p := plain{lines: make([]plainLine, 0, 64)}
	if !p.split(string(text)) {
		return nil, false
	}
	if len(p.lines) == 0 {
		return nil, true
	}
	value, ok = p.block(p.lines[0].indent, 0)
	return value, ok && p.at == len(p.lines)
}

type plainLine struct {
	indent int
	text   string // without blanks around it, never empty
}

// plain is a text being read; at is the line that comes next.
type plain struct {
	lines []plainLine
	at    int
}

// split finds the lines that say something.
func (p *plain) split(text string) bool {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c < ' ' && c != '\n' || c >= 0x7f {
			return false
		}
	}
	for len(text) > 0 {
		line, rest, _ := strings.Cut(text, "\n")
		text = rest
		trimmed := strings.TrimLeft(line, " ")
		indent := len(line) - len(trimmed)
		if trimmed = strings.TrimRight(trimmed, " "); trimmed == "" {
			continue
		}
		p.lines = append(p.lines, plainLine{indent, trimmed})
	}
	return true
}

// mostNested bounds the depth of what is read here.
const mostNested = 64

// block reads the mapping or sequence whose lines begin at indent.
func (p *plain) block(indent, depth int) (any, bool) {
	if depth > mostNested {
		return nil, false
	}
	if isItem(p.lines[p.at].text) {
		return p.sequence(indent, depth)
	}
	return p.mapping(indent, depth)
}

func isItem(text string) bool { return text == "-" || strings.HasPrefix(text, "- ") }

func (p *plain) sequence(indent, depth int) (any, bool) {
	out := []any{}
	for p.at < len(p.lines) && p.lines[p.at].indent == indent && isItem(p.lines[p.at].text) {
		line := &p.lines[p.at]
		rest := strings.TrimLeft(line.text[1:], " ")
		var item any
		ok := true
		switch {
		case rest == "":
			p.at++
			item, ok = p.nested(indent+1, depth)
		case isItem(rest) || plainKey(rest) > 0:
			// The block begins on the line of its dash.
			line.indent, line.text = indent+len(line.text)-len(rest), rest
			item, ok = p.block(line.indent, depth+1)
		default:
			item, ok = p.scalar(rest, indent)
		}
		if !ok {
			return nil, false
		}
		out = append(out, item)
	}
	return out, p.ended(indent)
}

func (p *plain) mapping(indent, depth int) (any, bool) {
	out := map[string]any{}
	for p.at < len(p.lines) && p.lines[p.at].indent == indent && !isItem(p.lines[p.at].text) {
		text := p.lines[p.at].text
		n := plainKey(text)
		if n == 0 {
			return nil, false
		}
		key := strings.Trim(text[:n], `"`)
		if _, twice := out[key]; twice {
			return nil, false
		}
		rest := strings.TrimLeft(text[n+1:], " ")
		var value any
		ok := true
		if rest == "" {
			p.at++
			if p.at < len(p.lines) && p.lines[p.at].indent == indent && isItem(p.lines[p.at].text) {
				value, ok = p.sequence(indent, depth+1)
			} else {
				value, ok = p.nested(indent+1, depth)
			}
		} else {
			value, ok = p.scalar(rest, indent)
		}
		if !ok {
			return nil, false
		}
		out[key] = value
	}
	return out, p.ended(indent)
}

// nested reads the block below a line, if there is one that is indented enough.
func (p *plain) nested(least, depth int) (any, bool) {
	if p.at == len(p.lines) || p.lines[p.at].indent < least {
		return nil, true
	}
	return p.block(p.lines[p.at].indent, depth+1)
}

// ended reports whether the block ends where it should: no following line is indented more.
func (p *plain) ended(indent int) bool {
	return p.at == len(p.lines) || p.lines[p.at].indent <= indent
}

// scalar reads a value that fills the rest of its line, and goes on to the next.
func (p *plain) scalar(text string, indent int) (any, bool) {
	p.at++
	if p.at < len(p.lines) && p.lines[p.at].indent > indent {
		return nil, false // it may go on there
	}
	switch text {
	case "{}":
		return map[string]any{}, true
	case "[]":
		return []any{}, true
	case "true":
		return true, true
	case "false":
		return false, true
	case "null", "~":
		return nil, true
	}
	switch c := text[0]; {
	case c == '"' || c == '\'':
		inner, closed := strings.CutSuffix(text[1:], text[:1])
		if !closed || strings.IndexByte(inner, c) >= 0 || c == '"' && strings.IndexByte(inner, '\\') >= 0 {
			return nil, false
		}
		return inner, true
	case c >= '0' && c <= '9':
		return plainNumber(text)
	case isLetter(c):
		return text, plainText(text)
	}
	return nil, false
}

// plainNumber reads a whole number in decimal, as no other form of YAML's numbers
// could be meant.
func plainNumber(text string) (any, bool) {
	if len(text) > 15 || len(text) > 1 && text[0] == '0' {
		return nil, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strings.Trim(text, "0123456789") == ""
}

// plainText reports whether a text that begins with a letter is a string and nothing else.
func plainText(text string) bool {
	if reserved(text) {
		return false
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case isLetter(c) || c >= '0' && c <= '9':
		case strings.IndexByte("_-./()=+;@'", c) >= 0:
		case c == ':' && i+1 < len(text) && text[i+1] != ' ':
		case c == ' ' && text[i+1] != '#': // the text does not end with a blank
		default:
			return false
		}
	}
	return true
}

// reserved are words that YAML 1.1 takes for something else than text.
func reserved(text string) bool {
	switch strings.ToLower(text) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null", "inf", "nan":
		return true
	}
	return false
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// plainKey is the length of the key that a line begins with, with its quotes; 0 if it
// does not begin with a key that is read here.
func plainKey(text string) int {
	if text[0] == '"' {
		end := strings.IndexByte(text[1:], '"') + 2
		if end < 3 || strings.IndexByte(text[:end], '\\') >= 0 || !colonAt(text, end) {
			return 0
		}
		return end
	}
	if !isLetter(text[0]) {
		return 0
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case isLetter(c) || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' || c == '/':
		case colonAt(text, i) && !reserved(text[:i]):
			return i
		default:
			return 0
		}
	}
	return 0
}

// colonAt reports whether a colon at i ends a key.
func colonAt(text string, i int) bool {
	return i < len(text) && text[i] == ':' && (i+1 == len(text) || text[i+1] == ' ')
}
