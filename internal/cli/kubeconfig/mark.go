package kubeconfig

import "go.yaml.in/yaml/v3"

// markName is the extension that identifies our entries. Extensions are part of the kubeconfig format; kubectl and
// client-go preserve them.
const markName = "rehearse-k8s.github.io"

// mark is what our entries record about the file that they were added to. It is part of the file, so that the entries of a
// killed cluster can be removed without other information.
type mark struct {
	// Previous is the current context before this one was added.
	Previous string
	// Created is true if the file did not exist before.
	Created bool
}

// readMark returns the mark of an entry's body; ok is false for an entry that is not ours.
func readMark(body *yaml.Node) (m mark, ok bool) {
	list := field(body, "extensions")
	if list == nil {
		return mark{}, false
	}
	for _, e := range list.Content {
		if itemName(e) != markName {
			continue
		}
		ext := field(e, "extension")
		if n := field(ext, "previous-context"); n != nil {
			m.Previous = n.Value
		}
		if n := field(ext, "created-file"); n != nil {
			m.Created = n.Value == "true"
		}
		return m, true
	}
	return mark{}, false
}

// writeMark sets the mark on an entry's body.
func writeMark(body *yaml.Node, m mark) {
	ext := mapping("made-by", "rehearse")
	if m.Previous != "" {
		setField(ext, "previous-context", scalar(m.Previous))
	}
	if m.Created {
		setField(ext, "created-file", scalar("true"))
	}
	entry := &yaml.Node{Kind: yaml.MappingNode}
	setField(entry, "extension", ext)
	setField(entry, "name", scalar(markName))

	list := field(body, "extensions")
	if list == nil || list.Kind != yaml.SequenceNode {
		list = &yaml.Node{Kind: yaml.SequenceNode}
		setField(body, "extensions", list)
	}
	for i, e := range list.Content {
		if itemName(e) == markName {
			list.Content[i] = entry
			return
		}
	}
	list.Content = append(list.Content, entry)
}
