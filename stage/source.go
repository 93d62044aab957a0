package stage

import (
	"bytes"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
)

// source is one stage and where it was written.
type source struct {
	stage *Stage
	file  string
	first int // line the document begins at, less one
	// text is the document, parsed for the lines of fields only when one is asked for.
	text []byte
	root *yaml.Node
}

// place completes an error with where the stage stands.
func (s *source) place(e *Error) *Error {
	e.File, e.Stage, e.of = s.file, s.stage.Name, s.stage
	if e.Line == 0 {
		e.Line = s.line(e.Field)
	}
	return e
}

// line is the line of a field, or of the nearest parent that is there.
func (s *source) line(field string) int {
	line, _, _ := s.position(field)
	return line
}

// position is line and column of a field, or of the nearest parent that is
// there, and its value.
func (s *source) position(field string) (line, column int, value *yaml.Node) {
	if s.text == nil {
		return 0, 0, nil
	}
	if s.root == nil {
		s.root = &yaml.Node{}
		if yaml.Unmarshal(s.text, s.root) != nil || len(s.root.Content) == 0 {
			s.text = nil
			return 0, 0, nil
		}
	}
	node := s.root.Content[0]
	at := node
	for _, part := range fieldParts(field) {
		key, next := child(node, part)
		if next == nil {
			break
		}
		node, at = next, key
	}
	return s.first + at.Line, at.Column, node
}

// fieldParts takes "spec.steps[1].patch" apart.
func fieldParts(field string) []string {
	return strings.FieldsFunc(field, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
}

func child(node *yaml.Node, part string) (key, value *yaml.Node) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == part {
				return node.Content[i], node.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(part); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i]
		}
	}
	return nil, nil
}

// document is one YAML document of a file, or one item of a List.
type document struct {
	text  []byte
	first int
	// item is where an item stands, nil for a whole document: its text is written anew, and
	// what was written has the lines.
	item *yaml.Node
}

// items are those of a document that is a List, as kubectl prints several objects; else the
// document itself.
func (d document) items() []document {
	root := &yaml.Node{}
	if !bytes.Contains(d.text, []byte("items")) || yaml.Unmarshal(d.text, root) != nil || len(root.Content) == 0 {
		return []document{d}
	}
	kind := scalar(root.Content[0], "kind")
	_, list := child(root.Content[0], "items")
	if kind != "List" && kind != v1alpha1.StageKind+"List" || list == nil || list.Kind != yaml.SequenceNode {
		return []document{d}
	}
	var out []document
	for _, n := range list.Content {
		text, err := yaml.Marshal(n)
		if err != nil {
			return []document{d}
		}
		out = append(out, document{text: text, first: d.first, item: n})
	}
	return out
}

// root is the document, parsed.
func (d document) root() (*yaml.Node, error) {
	root := &yaml.Node{}
	if d.item != nil {
		root.Kind, root.Content = yaml.DocumentNode, []*yaml.Node{d.item}
		return root, nil
	}
	return root, yaml.Unmarshal(d.text, root)
}

// line is where it begins.
func (d document) line() int {
	if d.item != nil {
		return d.first + d.item.Line
	}
	return d.first + 1
}

// source is the one of a stage that stands in it.
func (d document) source(file string) *source {
	s := &source{stage: &Stage{}, file: file, first: d.first, text: d.text}
	if d.item != nil {
		s.root, _ = d.root()
	}
	return s
}

// documents cuts a file at its "---" lines.
func documents(data []byte) []document {
	var out []document
	begin, first, line := 0, 0, 0
	for at := 0; at < len(data); {
		end := at + len(data[at:])
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		line++
		if text := strings.TrimRight(string(data[at:end]), " \t\r\n"); text == "---" || strings.HasPrefix(text, "--- ") {
			out = append(out, document{text: data[begin:at], first: first})
			begin, first = at+len("---"), line-1
		}
		at = end
	}
	return append(out, document{text: data[begin:], first: first})
}

// scalar returns the text of the scalar that a path of keys leads to, or "".
func scalar(n *yaml.Node, path ...string) string {
	for _, part := range path {
		if _, n = child(n, part); n == nil {
			return ""
		}
	}
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}
