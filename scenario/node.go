package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MostBytes is the length of the longest file that is read: the API takes no larger object either.
const MostBytes = 3 << 20

const (
	mostNodes = 100_000 // of a file, aliases resolved: they can make a short text very large
	mostDeep  = 100
)

// at is the place of a value in a file, and the value itself.
type at struct {
	file, path string
	line       int
	node       *yaml.Node // with aliases resolved; nil if the field is not set
}

// field returns an entry of a mapping. A missing entry has the line of the mapping.
func (a at) field(name string) at {
	for key, entry := range a.entries() {
		if keyOf(key) == name {
			return entry
		}
	}
	return a.below(name)
}

// below returns the place of an entry, without its value.
func (a at) below(name string) at {
	path := name
	switch {
	case strings.ContainsAny(name, ".[] "):
		path = a.path + "[" + name + "]"
	case a.path != "":
		path = a.path + "." + name
	}
	return at{file: a.file, path: path, line: a.line}
}

// entries iterates over the keys and values of a mapping.
func (a at) entries() iter.Seq2[*yaml.Node, at] {
	return func(yield func(*yaml.Node, at) bool) {
		if a.node == nil || a.node.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(a.node.Content); i += 2 {
			key := a.node.Content[i]
			entry := a.below(key.Value) // as it is written
			entry.line, entry.node = key.Line, resolved(a.node.Content[i+1])
			if !yield(key, entry) {
				return
			}
		}
	}
}

// item returns an entry of a list.
func (a at) item(i int) at {
	out := at{file: a.file, path: fmt.Sprintf("%s[%d]", a.path, i), line: a.line}
	if a.node != nil && a.node.Kind == yaml.SequenceNode && i < len(a.node.Content) {
		out.line, out.node = a.node.Content[i].Line, resolved(a.node.Content[i])
	}
	return out
}

// follow returns the value at a path such as "spec.clients[0].builtin".
func (a at) follow(path string) at {
	for _, part := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		if i, err := strconv.Atoi(part); err == nil && i >= 0 {
			a = a.item(i)
		} else {
			a = a.field(part)
		}
	}
	return a
}

// given reports whether there is a value other than null.
func (a at) given() bool { return a.node != nil && a.node.ShortTag() != "!!null" }

// text returns a scalar as it is written in the file, and "" for other values.
func (a at) text() string {
	if a.node == nil || a.node.Kind != yaml.ScalarNode || !a.given() {
		return ""
	}
	return a.node.Value
}

func resolved(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): `)

// documents returns the YAML documents of a file, without empty ones. It returns none if the file has
// errors.
func (p *problems) documents(file string, data []byte) (docs []at) {
	if len(data) > MostBytes {
		p.report(at{file: file}, "", "is %d bytes long, more than %d", len(data), MostBytes)
		return nil
	}
	for dec := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			text, where := err.Error(), at{file: file}
			if m := yamlLine.FindStringSubmatch(text); m != nil {
				where.line, _ = strconv.Atoi(m[1])
				text = text[len(m[0]):]
			}
			p.report(where, "", "is not valid YAML: %s", strings.TrimPrefix(text, "yaml: "))
			return nil
		}
		if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 && doc.Content[0].ShortTag() != "!!null" {
			docs = append(docs, at{file: file, line: doc.Content[0].Line, node: resolved(doc.Content[0])})
		}
	}
	before := len(p.all)
	left := mostNodes
	for _, d := range docs {
		p.readable(d, mostDeep, &left)
	}
	if len(p.all) > before {
		return nil
	}
	return docs
}

// readable rejects what has no JSON form, and duplicate keys.
func (p *problems) readable(a at, deep int, left *int) {
	switch *left--; {
	case deep == 0 || *left == 0:
		p.report(a, "", "is too large or nested too deeply")
		*left = -1
		return
	case *left < 0:
		return
	}
	switch a.node.Kind {
	case yaml.MappingNode:
		lines := map[string]int{}
		for key, one := range a.entries() {
			switch first := lines[keyOf(key)]; {
			case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!null":
				one.path = a.path
				p.report(one, "", "has a key that is not a text")
				continue
			case key.ShortTag() == "!!merge":
				p.report(one, "", "merge keys are not supported; write the fields out")
				continue
			case first > 0:
				p.report(one, "", "is set twice, first in line %d", first)
			}
			lines[keyOf(key)] = key.Line
			p.readable(one, deep-1, left)
		}
	case yaml.SequenceNode:
		for i := range a.node.Content {
			p.readable(a.item(i), deep-1, left)
		}
	case yaml.ScalarNode:
		if _, err := scalar(a.node); err != nil {
			p.report(a, a.node.Value, "%v", err)
		}
	}
}

// value returns a node as JSON decodes it.
func value(n *yaml.Node) any {
	switch n = resolved(n); n.Kind {
	case yaml.MappingNode:
		out := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			out[keyOf(n.Content[i])] = value(n.Content[i+1])
		}
		return out
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, item := range n.Content {
			out[i] = value(item)
		}
		return out
	}
	out, _ := scalar(n)
	return out
}

// keyOf returns a key as kubectl sends it to the API: an unquoted key that YAML 1.1 reads as a truth value or
// a number has the text of that value in JSON. So "yes" is "true", and 010 is "8". Quoted keys stay as they are.
func keyOf(key *yaml.Node) string {
	if key.Kind != yaml.ScalarNode {
		return key.Value
	}
	v, err := scalar(key)
	if err != nil {
		return key.Value
	}
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 32)
	}
	return key.Value
}

// truths and falsehoods are the further texts of true and false in YAML 1.1, which kubectl reads.
var (
	truths     = []string{"y", "Y", "yes", "Yes", "YES", "on", "On", "ON"}
	falsehoods = []string{"n", "N", "no", "No", "NO", "off", "Off", "OFF"}
)

// kindOf returns the tag of a scalar, as kubectl reads it.
func kindOf(n *yaml.Node) string {
	if n.Style == 0 && (slices.Contains(truths, n.Value) || slices.Contains(falsehoods, n.Value)) {
		return "!!bool"
	}
	return n.ShortTag()
}

func scalar(n *yaml.Node) (any, error) {
	switch tag := kindOf(n); tag {
	case "!!null":
		return nil, nil
	case "!!str", "!!timestamp":
		return n.Value, nil
	case "!!bool":
		return slices.Contains(truths, n.Value) || strings.EqualFold(n.Value, "true"), nil
	case "!!int", "!!float":
		var whole int64
		if tag == "!!int" && n.Decode(&whole) == nil {
			return whole, nil
		}
		var number float64
		if err := n.Decode(&number); err != nil || math.IsInf(number, 0) || math.IsNaN(number) {
			return nil, errors.New("is not a number in JSON")
		}
		return number, nil
	default:
		return nil, fmt.Errorf("the tag %s is not supported", tag)
	}
}
