package kubeconfig

import "go.yaml.in/yaml/v3"

// markName is the extension that tells our entries from everybody else's.
// Extensions are part of the kubeconfig format; kubectl and client-go carry them along unchanged.
const markName = "rehearse-k8s.github.io"

// mark is what an entry of ours remembers about the file it was put into. It lives in the file and not beside
// it, so that a cluster that was killed can be cleaned up by anyone who finds the entry.
type mark struct {
	// Previous was the current context before this one took its place.
	Previous string
	// Created says that the file did not exist before.
	Created bool
}

// readMark gives the mark of an entry's body; ok is false for an entry that is not ours.
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
