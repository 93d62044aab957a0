package stage

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
)

// Source is one stage and its location.
type Source struct {
	Stage *Stage
	File  string
	first int // the line before the start of the document
	// text is the document. It is parsed only when the line of a field is needed.
	text []byte
	root *yaml.Node
}

// place adds the location of the stage to an error.
func (s *Source) place(e *Error) *Error {
	e.File, e.Stage, e.of = s.File, s.Stage.Name, s.Stage
	if e.Line == 0 {
		e.Line = s.line(e.Field)
	}
	return e
}

// LineOf returns the line of a node of the stage's document in the file.
func (s *Source) LineOf(n *yaml.Node) int { return s.first + n.Line }

// line returns the line of a field, or of its nearest existing parent.
func (s *Source) line(field string) int {
	line, _, _ := s.Position(field)
	return line
}

// Position returns the line and column of a field, or of its nearest existing parent, and its value.
func (s *Source) Position(field string) (line, column int, value *yaml.Node) {
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

// fieldParts splits a path such as "spec.steps[1].patch".
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

// Document is one YAML document of a file, or one item of a List.
type Document struct {
	text  []byte
	first int
	// item is the node of an item of a list, nil for a whole document. The text of an item is marshalled again;
	// item has the original lines.
	item *yaml.Node
}

// Items returns the items of a List, as kubectl prints several objects; otherwise the document itself.
func (d Document) Items() []Document {
	root := &yaml.Node{}
	if !bytes.Contains(d.text, []byte("items")) || yaml.Unmarshal(d.text, root) != nil || len(root.Content) == 0 {
		return []Document{d}
	}
	kind := scalar(root.Content[0], "kind")
	_, list := child(root.Content[0], "items")
	if kind != "List" && kind != v1alpha1.StageKind+"List" || list == nil || list.Kind != yaml.SequenceNode {
		return []Document{d}
	}
	var out []Document
	for _, n := range list.Content {
		text, err := yaml.Marshal(n)
		if err != nil {
			return []Document{d}
		}
		out = append(out, Document{text: text, first: d.first, item: n})
	}
	return out
}

// Root returns the parsed document.
func (d Document) Root() (*yaml.Node, *Error) {
	root := &yaml.Node{}
	if d.item != nil {
		root.Kind, root.Content = yaml.DocumentNode, []*yaml.Node{d.item}
		return root, nil
	}
	if len(d.text) > mostBytes {
		return nil, d.tooLarge()
	}
	if err := yaml.Unmarshal(d.text, root); err != nil {
		return nil, yamlError(err, d.first)
	}
	return root, nil
}

func (d Document) tooLarge() *Error {
	return &Error{Line: d.Line(), Problem: fmt.Sprintf("is over %d bytes", mostBytes)}
}

// LineOf returns the line of a node of the document in the file.
func (d Document) LineOf(n *yaml.Node) int { return d.first + n.Line }

// Text returns the YAML of the document. For an item of a List it is formatted again.
func (d Document) Text() []byte { return bytes.Clone(d.text) }

// StageName returns the name in the metadata of a parsed document, or "".
func StageName(root *yaml.Node) string { return scalar(root.Content[0], "metadata", "name") }

// Line returns the line at which the document starts.
func (d Document) Line() int {
	if d.item != nil {
		return d.first + d.item.Line
	}
	return d.first + 1
}

// Source returns the location of a stage in the document.
func (d Document) Source(file string) *Source {
	s := &Source{Stage: &Stage{}, File: file, first: d.first, text: d.text}
	if d.item != nil {
		s.root, _ = d.Root()
	}
	return s
}

// Documents splits a file at its "---" lines.
func Documents(data []byte) []Document {
	var out []Document
	begin, first, line := 0, 0, 0
	for at := 0; at < len(data); {
		end := at + len(data[at:])
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		line++
		if text := strings.TrimRight(string(data[at:end]), " \t\r\n"); text == "---" || strings.HasPrefix(text, "--- ") {
			out = append(out, Document{text: data[begin:at], first: first})
			begin, first = at+len("---"), line-1
		}
		at = end
	}
	return append(out, Document{text: data[begin:], first: first})
}

// scalar returns the text of the scalar at a path of keys, or "".
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
