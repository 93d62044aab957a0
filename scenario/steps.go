package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
	"github.com/rehearse-k8s/rehearse/invariant"
)

// StepKind is the action of a step.
type StepKind string

// The kinds of steps.
const (
	Apply  StepKind = "apply"
	Create StepKind = "create"
	Delete StepKind = "delete"
	Patch  StepKind = "patch"
	Wait   StepKind = "wait"
	Settle StepKind = "settle"
)

var stepKinds = []string{string(Apply), string(Create), string(Delete), string(Patch), string(Wait), string(Settle)}

// Step is one action of a user. Which fields are set depends on the Kind.
type Step struct {
	Kind StepKind
	// Line of the scenario's file.
	Line int
	// Objects to apply or create, in this order.
	Objects []map[string]any
	// On names what is deleted or patched. Its namespace is set for resources that this package knows as
	// namespaced; for others the caller sets it.
	On v1alpha1.Reference
	// Propagation of a deletion, never empty.
	Propagation metav1.DeletionPropagation
	// PatchType, PatchData and Subresource of a patch.
	PatchType   types.PatchType
	PatchData   []byte
	Subresource string
	// Invariant is the condition of a wait. It may be checked in several runs concurrently.
	Invariant invariant.Invariant
	// Within bounds a wait and a settle.
	Within time.Duration
}

// Acts reports whether the step writes, rather than waits.
func (s *Step) Acts() bool { return s.Kind != Wait && s.Kind != Settle }

// String returns the step in one line.
func (s Step) String() string {
	switch s.Kind {
	case Apply, Create:
		names := make([]string, len(s.Objects))
		for i, o := range s.Objects {
			names[i] = nameOfObject(o)
		}
		return string(s.Kind) + " " + strings.Join(names, ", ")
	case Delete:
		text := "delete " + referenceText(s.On)
		if s.Propagation != metav1.DeletePropagationBackground {
			text += fmt.Sprintf(" (%s)", s.Propagation)
		}
		return text
	case Patch:
		resource := s.On
		if s.Subresource != "" {
			resource.Resource += "/" + s.Subresource
		}
		return fmt.Sprintf("patch %s (%s): %s", referenceText(resource), patchName(s.PatchType), s.PatchData)
	case Wait:
		return fmt.Sprintf("wait, %s at most, until: %s", s.Within, s.Invariant.Name)
	}
	return fmt.Sprintf("settle, %s at most", s.Within)
}

// nameOfObject returns "Job default/pi", or "Node a" for an object without a namespace.
func nameOfObject(o map[string]any) string {
	meta, _ := o["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	if name == "" {
		generate, _ := meta["generateName"].(string)
		name = generate + "…"
	}
	if namespace, _ := meta["namespace"].(string); namespace != "" {
		name = namespace + "/" + name
	}
	return fmt.Sprintf("%s %s", o["kind"], name)
}

func referenceText(r v1alpha1.Reference) string {
	switch {
	case r.Selector != "" && r.Namespace != "":
		return fmt.Sprintf("%s of %s with %s", r.Resource, r.Namespace, r.Selector)
	case r.Selector != "":
		return fmt.Sprintf("%s with %s", r.Resource, r.Selector)
	case r.Namespace != "":
		return fmt.Sprintf("%s %s/%s", r.Resource, r.Namespace, r.Name)
	}
	return r.Resource + " " + r.Name
}

func (c *checker) steps(a at) {
	for i := range c.s.Spec.Steps {
		c.s.Steps = append(c.s.Steps, c.step(a.item(i), &c.s.Spec.Steps[i]))
	}
}

func (c *checker) step(a at, written *v1alpha1.Step) Step {
	s := Step{Line: a.line}
	var given []string
	for _, kind := range stepKinds {
		if a.field(kind).given() {
			given = append(given, kind)
		}
	}
	if len(given) != 1 {
		reason := "has none"
		if len(given) > 1 {
			reason = "has " + strings.Join(given, " and ")
		}
		c.report(a, "", "a step is one of %s (an empty one is written {}); this one %s", strings.Join(stepKinds, ", "), reason)
		return s
	}
	s.Kind = StepKind(given[0])
	a = a.field(given[0])
	switch s.Kind {
	case Apply:
		s.Objects = c.manifest(a, written.Apply, applied)
	case Create:
		s.Objects = c.manifest(a, written.Create, created)
	case Delete:
		s.On = c.reference(a, written.Delete.Reference)
		s.Propagation = c.propagation(a.field("propagation"), written.Delete.Propagation)
	case Patch:
		c.patch(a, written.Patch, &s)
	case Wait:
		s.Invariant = c.waitFor(a, &written.Wait.Invariant)
		s.Within = c.duration(a.field("within"), written.Wait.Within, DefaultWithin)
	case Settle:
		s.Within = c.duration(a.field("within"), written.Settle.Within, DefaultWithin)
	}
	return s
}

func (c *checker) reference(a at, r v1alpha1.Reference) v1alpha1.Reference {
	if c.resource(a.field("resource"), r.Resource) {
		r.Namespace = c.namespace(a.field("namespace"), r.Resource, r.Namespace)
	}
	if (r.Name == "") == (r.Selector == "") {
		c.report(a, "", "must have either name or selector")
	}
	if _, err := labels.Parse(r.Selector); err != nil {
		c.report(a.field("selector"), r.Selector, "is not a label selector such as app=web: %v", err)
	}
	return r
}

var propagations = []string{
	string(metav1.DeletePropagationBackground), string(metav1.DeletePropagationForeground), string(metav1.DeletePropagationOrphan),
}

func (c *checker) propagation(a at, p metav1.DeletionPropagation) metav1.DeletionPropagation {
	if p == "" {
		return metav1.DeletePropagationBackground
	}
	if !slices.Contains(propagations, string(p)) {
		c.report(a, string(p), "must be %s", oneOf(propagations))
	}
	return p
}

// patchTypes maps kubectl's names to the types of patches.
var patchTypes = map[string]types.PatchType{
	"merge": types.MergePatchType, "strategic": types.StrategicMergePatchType, "json": types.JSONPatchType,
}

func patchName(t types.PatchType) string {
	for name, is := range patchTypes {
		if is == t {
			return name
		}
	}
	return string(t)
}

func (c *checker) patch(a at, p *v1alpha1.Patch, s *Step) {
	s.On = c.reference(a, p.Reference)
	s.Subresource = p.Subresource
	if strings.ContainsAny(p.Subresource, "/ ") {
		c.report(a.field("subresource"), p.Subresource, "must be a name such as status or scale")
	}
	name := p.Type
	if name == "" {
		name = "merge"
	}
	kind, known := patchTypes[name]
	if !known {
		c.report(a.field("type"), name, "must be merge, strategic or json")
		return
	}
	s.PatchType = kind
	body := a.field("patch")
	if !body.given() {
		c.report(body, "", "is missing")
		return
	}
	if kind == types.JSONPatchType {
		c.jsonPatch(body)
	} else {
		c.decode(body, &map[string]json.RawMessage{})
	}
	var compact bytes.Buffer
	if json.Compact(&compact, p.Patch) == nil {
		s.PatchData = compact.Bytes()
	}
}

// jsonPatch checks the form of operations. Only the API server can check whether they apply.
func (c *checker) jsonPatch(a at) {
	var operations []struct {
		Op    string          `json:"op"`
		Path  *string         `json:"path"`
		From  string          `json:"from"`
		Value json.RawMessage `json:"value"`
	}
	if !c.decode(a, &operations) {
		return
	}
	ops := []string{"add", "remove", "replace", "move", "copy", "test"}
	for i, o := range operations {
		one := a.item(i)
		if !slices.Contains(ops, o.Op) {
			c.report(one.field("op"), o.Op, "must be %s", oneOf(ops))
		}
		switch {
		case o.Path == nil:
			c.report(one.field("path"), "", "is missing")
		case *o.Path != "" && !strings.HasPrefix(*o.Path, "/"):
			c.report(one.field("path"), *o.Path, "must begin with /")
		}
	}
}

// duration returns a duration, which must be positive, or the default if it is not set.
func (c *checker) duration(a at, d *metav1.Duration, otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	if d.Duration <= 0 {
		c.report(a, a.text(), "must be more than 0; leave it out for %s", otherwise)
	}
	return d.Duration
}
