package snapshot

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxKey is the length of a key that every YAML parser reads; the specification limits keys to 1024 characters.
const maxKey = 500

// appendYAML appends an object in block style with sorted keys. The values are those that a JSON decoder returns. The result is
// false if the object has a key that block style cannot contain.
//
// The standard encoder for Kubernetes objects converts to JSON, parses the result as YAML and writes it again, which takes
// most of the time of saving a large cluster.
func appendYAML(b []byte, doc map[string]any) ([]byte, bool) {
	if len(doc) == 0 || hasLongKey(doc) {
		return b, false
	}
	return appendMapping(b, doc, 0), true
}

func hasLongKey(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for k, child := range v {
			if len(k) > maxKey || hasLongKey(child) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasLongKey)
	}
	return false
}

// appendMapping appends the entries of a map. The first one begins at the current column, the others on new lines.
func appendMapping(b []byte, m map[string]any, indent int) []byte {
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b = appendSpaces(b, indent)
		}
		if isPlain(k) {
			b = append(b, k...)
		} else {
			b = appendQuoted(b, k)
		}
		b = append(b, ':')
		switch v := m[k].(type) {
		case map[string]any:
			if len(v) > 0 {
				b = appendMapping(appendSpaces(append(b, '\n'), indent+2), v, indent+2)
				continue
			}
		case []any:
			if len(v) > 0 {
				b = appendSequence(appendSpaces(append(b, '\n'), indent), v, indent)
				continue
			}
		}
		b = appendScalar(append(b, ' '), m[k], indent+2)
	}
	return b
}

// appendSequence appends the items of a list, in the same way.
func appendSequence(b []byte, list []any, indent int) []byte {
	for i, item := range list {
		if i > 0 {
			b = appendSpaces(b, indent)
		}
		b = append(b, "- "...)
		switch v := item.(type) {
		case map[string]any:
			if len(v) > 0 {
				b = appendMapping(b, v, indent+2)
				continue
			}
		case []any:
			if len(v) > 0 {
				b = appendSequence(b, v, indent+2)
				continue
			}
		}
		b = appendScalar(b, item, indent+2)
	}
	return b
}

// appendScalar appends a value without children and the end of its line. indent is the column of the lines of a block.
func appendScalar(b []byte, v any, indent int) []byte {
	switch v := v.(type) {
	case nil:
		b = append(b, "null"...)
	case map[string]any:
		b = append(b, "{}"...)
	case []any:
		b = append(b, "[]"...)
	case bool:
		b = strconv.AppendBool(b, v)
	case int64:
		b = strconv.AppendInt(b, v, 10)
	case float64:
		b = strconv.AppendFloat(b, v, 'g', -1, 64)
	case string:
		switch {
		case isPlain(v):
			b = append(b, v...)
		case isBlock(v):
			return appendBlock(b, v, indent)
		default:
			b = appendQuoted(b, v)
		}
	default:
		panic(fmt.Sprintf("snapshot: a value of type %T is not from a JSON decoder", v))
	}
	return append(b, '\n')
}

func appendSpaces(b []byte, n int) []byte {
	for range n {
		b = append(b, ' ')
	}
	return b
}

// reserved are the words that some version of YAML reads as another type than a string.
var reserved = []string{"true", "false", "yes", "no", "on", "off", "y", "n", "null"}

// isPlain reports whether a string needs no quotes, with a rule that is stricter than that of YAML.
func isPlain(s string) bool {
	if s == "" || s[len(s)-1] == ':' || s[len(s)-1] == ' ' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '/' || c == '_':
		case i == 0:
			return false
		case '0' <= c && c <= '9' || strings.IndexByte("-.@+= ", c) >= 0:
		case c == ':' && s[i+1] != ' ':
		default:
			return false
		}
	}
	return len(s) > 5 || !slices.Contains(reserved, strings.ToLower(s))
}

// isBlock reports whether a string is a text of several lines that a literal block contains unchanged.
func isBlock(s string) bool {
	body := strings.TrimSuffix(s, "\n")
	if !strings.Contains(s, "\n") || body == "" || body[len(body)-1] == '\n' || body[0] == '\n' {
		return false
	}
	for line := range strings.SplitSeq(body, "\n") {
		if strings.HasPrefix(line, "\t") || line != "" && strings.Trim(line, " \t") == "" {
			return false
		}
	}
	return body[0] != ' ' && !strings.ContainsFunc(body, func(r rune) bool { return r != '\n' && r != '\t' && mustEscape(r) }) && utf8.ValidString(s)
}

func appendBlock(b []byte, s string, indent int) []byte {
	body, ended := strings.CutSuffix(s, "\n")
	b = append(b, '|')
	if !ended {
		b = append(b, '-')
	}
	b = append(b, '\n')
	for line := range strings.SplitSeq(body, "\n") {
		if line != "" {
			b = append(appendSpaces(b, indent), line...)
		}
		b = append(b, '\n')
	}
	return b
}

// mustEscape reports whether a YAML stream cannot contain a rune, or reads it as the end of a line.
func mustEscape(r rune) bool {
	return r < 0x20 || 0x7f <= r && r <= 0xa0 || r == 0x2028 || r == 0x2029 || 0xd800 <= r && r <= 0xdfff || r == 0xfeff || r == 0xfffe || r == 0xffff
}

func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\t':
			b = append(b, `\t`...)
		case mustEscape(r):
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
