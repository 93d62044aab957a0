package stagefiles

import (
	"bytes"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	kwok "github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	rehearse "github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/kubeletapi/rules"
	"github.com/rehearse-k8s/rehearse/stage"
)

// Contents are the objects of a set of files, by what they are for.
type Contents struct {
	// Stages are the files without their objects of other kinds, whose lines are empty, so that the lines of the stages keep
	// their numbers. Files that contain only other kinds are left out.
	Stages []stage.File
	// Rules are the objects that configure kubelet endpoints, and RuleKinds the same as kinds.
	Rules     *rules.Set
	RuleKinds []Kind
	// Ignored are the kinds of objects that have no effect in these files.
	Ignored []Kind
	// Errors are the invalid objects of Rules.
	Errors []*Error
}

// Kind is one kind of objects in a set of files.
type Kind struct {
	APIVersion, Kind string
	// Count is the number of these objects, File and Line are the place of the first one.
	Count int
	File  string
	Line  int
}

// Error is an invalid object.
type Error struct {
	File    string
	Line    int
	Message string
}

// Error implements error: "logs.yaml:2: ClusterLogs a: unknown field".
func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message) }

// Err returns the first error.
func (c *Contents) Err() error {
	if len(c.Errors) == 0 {
		return nil
	}
	return c.Errors[0]
}

// Split separates the objects of files. If no object is a stage or configures kubelet endpoints, Stages are the files as they
// are, so that their reader reports what is wrong with them.
func Split(files ...stage.File) *Contents {
	c := &Contents{Rules: &rules.Set{}}
	for _, f := range files {
		c.file(f)
	}
	if len(c.Stages)+len(c.RuleKinds)+len(c.Errors) == 0 {
		c.Stages, c.Ignored = files, nil
	}
	return c
}

// class is what an object of a file is for.
type class int

const (
	isStage class = iota // also everything that package stage must reject
	isRule
	isOther
)

// file adds the objects of a file.
func (c *Contents) file(f stage.File) {
	var parts [][]byte
	removed := false
	for _, d := range stage.Documents(f.Data) {
		items, others := d.Items(), 0
		for _, item := range items {
			text := item.Text()
			head, class := classify(text)
			switch class {
			case isStage:
				continue
			case isRule:
				c.RuleKinds = add(c.RuleKinds, head, f.Name, item.Line())
				if err := c.Rules.Add(f.Name, text); err != nil {
					c.Errors = append(c.Errors, &Error{f.Name, item.Line(), err.Error()})
				}
			case isOther:
				c.Ignored = add(c.Ignored, head, f.Name, item.Line())
			}
			others++
		}
		text := d.Text()
		if others > 0 {
			if others < len(items) {
				c.Errors = append(c.Errors, &Error{f.Name, d.Line(), "the List contains stages and objects of other kinds: use two Lists"})
			}
			text = bytes.Repeat([]byte{'\n'}, bytes.Count(text, []byte{'\n'}))
			removed = true
		}
		parts = append(parts, text)
	}
	if removed {
		f.Data = bytes.Join(parts, []byte("---"))
		if isEmpty(f.Data) {
			return
		}
	}
	c.Stages = append(c.Stages, f)
}

// classify decides what a document is for. A mistake in the kind or the version of a stage must not make it an ignored object.
func classify(document []byte) (metav1.TypeMeta, class) {
	var head metav1.TypeMeta
	if err := yaml.Unmarshal(document, &head); err != nil || head.Kind == "" || head.APIVersion == "" {
		return head, isStage
	}
	version, err := schema.ParseGroupVersion(head.APIVersion)
	switch {
	case rules.IsRule(document):
		return head, isRule
	case err != nil || strings.EqualFold(head.Kind, kwok.StageKind):
		return head, isStage
	case version.Group == kwok.GroupVersion.Group:
		return head, isStage
	}
	return head, isOther
}

// Applies reports whether a document is a stage, configures kubelet endpoints, or must be rejected as an invalid stage.
func Applies(document []byte) bool {
	_, class := classify(document)
	return class != isOther && !isEmpty(document)
}

// add counts an object.
func add(kinds []Kind, head metav1.TypeMeta, file string, line int) []Kind {
	for i := range kinds {
		if kinds[i].Kind == head.Kind && kinds[i].APIVersion == head.APIVersion {
			kinds[i].Count++
			return kinds
		}
	}
	return append(kinds, Kind{APIVersion: head.APIVersion, Kind: head.Kind, Count: 1, File: file, Line: line})
}

// isEmpty reports whether a file contains only comments and separators of documents.
func isEmpty(data []byte) bool {
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && string(line) != "---" {
			return false
		}
	}
	return true
}

// Place names the objects and the first of them: "StorageClass (storage.k8s.io/v1) in fast/storage-class.yaml:1".
func (k Kind) Place() string {
	number := ""
	if k.Count > 1 {
		number = fmt.Sprintf(", %d objects, the first", k.Count)
	}
	return fmt.Sprintf("%s (%s)%s in %s:%d", k.Kind, k.APIVersion, number, k.File, k.Line)
}

// Warning says that the objects have no effect in a file of stages, and what to do.
func (k Kind) Warning() string {
	return fmt.Sprintf("%s: has no effect in a file of stages; %s", k.Place(), k.Advice())
}

// Advice says what an ignored kind is for.
func (k Kind) Advice() string {
	group := ""
	if version, err := schema.ParseGroupVersion(k.APIVersion); err == nil {
		group = version.Group
	}
	switch {
	case group == KwokConfigGroup && k.Kind == KwokctlResourceKind:
		return "it is a template for 'rehearse scale --resource FILE'"
	case group == KwokConfigGroup, group == rehearse.GroupVersion.Group && k.Kind == rehearse.ClusterKind:
		return "it is for 'rehearse up --config FILE'"
	}
	return "create it in the cluster: rehearse kubectl apply -f FILE"
}

// KwokConfigGroup is the API group of KWOK's configuration files, and KwokctlResourceKind its kind of templates.
const (
	KwokConfigGroup     = "config.kwok.x-k8s.io"
	KwokctlResourceKind = "KwokctlResource"
)
