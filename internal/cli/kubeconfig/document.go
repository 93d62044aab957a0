package kubeconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// sections are the three lists of a kubeconfig, with the key that holds an item's body.
var sections = []struct{ list, body string }{
	{"clusters", "cluster"},
	{"contexts", "context"},
	{"users", "user"},
}

// document is one kubeconfig file as a YAML tree.
type document struct {
	doc  *yaml.Node // the document node: carries the comments around the root
	root *yaml.Node // the root mapping
}

// readDocument reads a file. For a missing or empty file it returns an empty document; existed distinguishes the two.
func readDocument(path string) (d *document, existed bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		d, err = parseDocument(nil)
		return d, false, err
	}
	if err != nil {
		return nil, true, fmt.Errorf("read kubeconfig: %w", err)
	}
	d, err = parseDocument(data)
	if err != nil {
		return nil, true, fmt.Errorf("kubeconfig %s is corrupt: %s", path, oneLine(err))
	}
	return d, true, nil
}

// parseDocument accepts what kubectl accepts, and rejects what cannot be written back unchanged.
func parseDocument(data []byte) (*document, error) {
	if _, err := clientcmd.Load(data); err != nil {
		return nil, err
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF) || err == nil && isNull(doc.Content[0]):
		return emptyDocument(), nil
	case err != nil:
		return nil, err
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it contains more than one YAML document")
	}
	d := &document{doc: &doc, root: doc.Content[0]}
	if d.root.Kind != yaml.MappingNode {
		return nil, errors.New("it is not a mapping")
	}
	for i := 0; i < len(d.root.Content); i += 2 {
		// A parser uses the last one, a person sees the first one: changing either would be wrong.
		if key := d.root.Content[i].Value; d.get(key) != d.root.Content[i+1] {
			return nil, fmt.Errorf("%q appears twice", key)
		}
	}
	for _, s := range sections {
		list := d.get(s.list)
		if list != nil && list.Kind != yaml.SequenceNode && !isNull(list) {
			return nil, fmt.Errorf("%q is not a plain list", s.list)
		}
	}
	return d, nil
}

func emptyDocument() *document {
	root := mapping("apiVersion", "v1", "kind", "Config")
	return &document{doc: &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{root}}, root: root}
}

// encode encodes the document in kubectl's layout: two spaces, lists not indented.
func (d *document) encode() ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	enc.CompactSeqIndent()
	if err := enc.Encode(d.doc); err != nil {
		return nil, err
	}
	if err := enc.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// config decodes the document as client-go reads it.
func (d *document) config() (*clientcmdapi.Config, error) {
	data, err := d.encode()
	if err != nil {
		return nil, err
	}
	return clientcmd.Load(data)
}

func (d *document) get(key string) *yaml.Node { return field(d.root, key) }

func (d *document) currentContext() string {
	if n := d.get("current-context"); n != nil {
		return n.Value
	}
	return ""
}

func (d *document) setCurrentContext(name string) {
	if d.currentContext() == name {
		return
	}
	if n := d.get("current-context"); n != nil && n.Kind == yaml.ScalarNode {
		n.SetString(name) // in place: a comment after it is preserved
		return
	}
	setField(d.root, "current-context", scalar(name))
}

// item finds an entry of a list by its name.
func (d *document) item(list, name string) *yaml.Node {
	for _, it := range d.items(list) {
		if itemName(it) == name {
			return it
		}
	}
	return nil
}

func (d *document) items(list string) []*yaml.Node {
	if n := d.get(list); n != nil {
		return n.Content
	}
	return nil
}

// put replaces the entry of that name in place, or appends it.
func (d *document) put(list string, item *yaml.Node) {
	seq := d.get(list)
	if seq == nil || seq.Kind != yaml.SequenceNode {
		seq = &yaml.Node{Kind: yaml.SequenceNode}
		setField(d.root, list, seq)
	}
	for i, it := range seq.Content {
		if itemName(it) == itemName(item) {
			seq.Content[i] = item
			return
		}
	}
	if len(seq.Content) == 0 {
		seq.Style = 0 // with the style "[]" the list would be one long line
	}
	seq.Content = append(seq.Content, item)
}

// drop removes the entry of that name from a list.
func (d *document) drop(list, name string) {
	seq := d.get(list)
	if seq == nil {
		return
	}
	kept := seq.Content[:0]
	for _, it := range seq.Content {
		if itemName(it) != name {
			kept = append(kept, it)
		}
	}
	seq.Content = kept
}

// blank reports whether the document has nothing that a user added.
func (d *document) blank() bool {
	c, err := d.config()
	if err != nil || len(c.Clusters)+len(c.Contexts)+len(c.AuthInfos)+len(c.Extensions) > 0 || c.CurrentContext != "" {
		return false
	}
	for i := 0; i < len(d.root.Content); i += 2 {
		switch d.root.Content[i].Value {
		case "apiVersion", "kind", "preferences", "clusters", "contexts", "users", "current-context":
		default:
			return false
		}
	}
	return true
}

func itemName(item *yaml.Node) string {
	if n := field(item, "name"); n != nil {
		return n.Value
	}
	return ""
}

// field is the value of a mapping's key, nil if the key does not exist.
func field(m *yaml.Node, key string) *yaml.Node {
	if m == nil || m.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil
}

// setField replaces the value of a key and keeps the key's comments.
func setField(m *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			m.Content[i+1] = value
			return
		}
	}
	m.Content = append(m.Content, scalar(key), value)
}

func scalar(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}

// mapping creates a mapping of strings.
func mapping(pairs ...string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, p := range pairs {
		n.Content = append(n.Content, scalar(p))
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// oneLine is an error as one line; those of YAML parsers have several.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
