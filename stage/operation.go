package stage

import (
	"fmt"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/stage/kubelet"
	"github.com/rehearse-k8s/rehearse/internal/stage/limit"
	"github.com/rehearse-k8s/rehearse/internal/stage/render"
	"k8s.io/apimachinery/pkg/types"
)

// Operation is one operation of a stage. Exactly one of the pointers or delete is set.
type Operation struct {
	Field      string // its path, for errors
	line       int
	Event      *v1alpha1.StageEvent
	Finalizers *v1alpha1.StageFinalizers
	Delete     bool
	patch      *patch
	apply      *applying
}

// TemplateField returns the path of the operation's template, "" for an operation without one.
func (o *Operation) TemplateField() string {
	switch {
	case o.patch != nil:
		return o.patch.field
	case o.apply != nil:
		return o.apply.field
	}
	return ""
}

// oneUpdate reports whether the one update of a pod or a node, which contains status and finalizers, can contain
// the operation.
func (o *Operation) oneUpdate() bool {
	p := o.patch
	return o.apply == nil && (p == nil || p.subresource == "status" && p.root == "status" && p.as == "" && p.kind != types.JSONPatchType)
}

// compileOperations combines next and steps into one list. Order: within a step event, finalizers, delete, patch,
// apply; within next event, finalizers, patches (or the status template), delete. Steps override next. The stage
// itself does not change.
func (c *compiling) compileOperations() ([]Operation, *Error) {
	s := &c.Stage.Spec
	var out []Operation
	var err *Error
	switch {
	case len(s.Steps) > 0:
		if s.Next != nil {
			c.warn("spec.next", "is ignored because steps are set; remove one of the two")
		}
		for i := range s.Steps {
			more, err := c.compileStep(fmt.Sprintf("spec.steps[%d]", i), &s.Steps[i])
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
	case s.Next == nil:
		return nil, problem("spec.steps", "a stage needs steps or next")
	default:
		if out, err = c.compileNext(s.Next); err != nil {
			return nil, err
		}
	}
	for i := range out {
		out[i].line = c.line(out[i].Field)
	}
	return out, nil
}

func (c *compiling) compileStep(field string, s *v1alpha1.StageStep) ([]Operation, *Error) {
	out, err := compileEventAndFinalizers(field, s.Event, s.Finalizers)
	if err != nil {
		return nil, err
	}
	if s.Delete {
		out = append(out, Operation{Field: field + ".delete", Delete: true})
	}
	if s.Patch != nil {
		p, err := c.compilePatch(field+".patch", s.Patch)
		if err != nil {
			return nil, err
		}
		out = append(out, Operation{Field: field + ".patch", patch: p})
	}
	if s.Apply != nil {
		a, err := c.compileApply(field+".apply", s.Apply)
		if err != nil {
			return nil, err
		}
		out = append(out, Operation{Field: field + ".apply", apply: a})
	}
	if len(out) == 0 {
		return nil, problem(field, "is empty: it needs an event, finalizers, delete, patch or apply")
	}
	return out, nil
}

func (c *compiling) compileNext(n *v1alpha1.StageNext) ([]Operation, *Error) {
	out, err := compileEventAndFinalizers("spec.next", n.Event, n.Finalizers)
	if err != nil {
		return nil, err
	}
	if len(n.Patches) > 0 && n.StatusTemplate != "" {
		c.warn("spec.next.statusTemplate", "is ignored because patches are set; remove one of the two")
	}
	if n.StatusTemplate != "" && len(n.Patches) == 0 {
		const field = "spec.next.statusTemplate"
		if n.StatusPatchAs != nil && n.StatusPatchAs.Username == "" {
			return nil, problem("spec.next.statusPatchAs.username", "is required")
		}
		asPatch := v1alpha1.StagePatch{Subresource: "status", Root: "status", Template: n.StatusTemplate, Impersonation: n.StatusPatchAs}
		if n.StatusSubresource != nil {
			if wrong := badPathPart(*n.StatusSubresource); wrong != "" {
				return nil, problem("spec.next.statusSubresource", wrong)
			}
			asPatch.Subresource = *n.StatusSubresource
		}
		p, err := c.compilePatch(field, &asPatch)
		if err != nil {
			return nil, err
		}
		out = append(out, Operation{Field: field, patch: p})
	}
	for i := range n.Patches {
		field := fmt.Sprintf("spec.next.patches[%d]", i)
		p, err := c.compilePatch(field, &n.Patches[i])
		if err != nil {
			return nil, err
		}
		out = append(out, Operation{Field: field, patch: p})
	}
	if n.Delete {
		out = append(out, Operation{Field: "spec.next.delete", Delete: true})
	}
	return out, nil
}

func compileEventAndFinalizers(field string, e *v1alpha1.StageEvent, f *v1alpha1.StageFinalizers) ([]Operation, *Error) {
	var out []Operation
	if e != nil {
		if e.Type != "" && e.Type != "Normal" && e.Type != "Warning" {
			return nil, problem(field+".event.type", fmt.Sprintf("%q is not Normal or Warning", e.Type))
		}
		out = append(out, Operation{Field: field + ".event", Event: e})
	}
	if f != nil {
		for i, item := range f.Add {
			if item.Value == "" {
				return nil, problem(fmt.Sprintf("%s.finalizers.add[%d].value", field, i), "is required")
			}
		}
		for i, item := range f.Remove {
			if item.Value == "" {
				return nil, problem(fmt.Sprintf("%s.finalizers.remove[%d].value", field, i), "is required")
			}
		}
		out = append(out, Operation{Field: field + ".finalizers", Finalizers: f})
	}
	return out, nil
}

// patch is a compiled patch of the object.
type patch struct {
	field             string // path of the template
	template          *render.Program
	kind              types.PatchType
	subresource, root string
	as                string // the user to impersonate; empty: the engine itself
	// step changes the status in place instead of the template, if the template only calls this step; otherwise
	// nil.
	step kubelet.Step
}

func (c *compiling) compilePatch(field string, p *v1alpha1.StagePatch) (*patch, *Error) {
	templateField := field
	if field != "spec.next.statusTemplate" {
		templateField += ".template"
	}
	out := &patch{field: templateField, subresource: p.Subresource, root: p.Root}
	var err *Error
	if out.as, err = impersonated(field, p.Impersonation); err != nil {
		return nil, err
	}
	if wrong := badPathPart(p.Subresource); wrong != "" {
		return nil, problem(field+".subresource", wrong)
	}
	if wrong := badPathPart(p.Root); wrong != "" {
		return nil, problem(field+".root", wrong)
	}
	var typ v1alpha1.StagePatchType
	if p.Type != nil {
		typ = *p.Type
	}
	switch typ {
	case v1alpha1.StagePatchTypeJSON:
		out.kind = types.JSONPatchType
	case v1alpha1.StagePatchTypeMerge:
		out.kind = types.MergePatchType
	case v1alpha1.StagePatchTypeStrategic:
		out.kind = types.StrategicMergePatchType
		if noStrategic(c.kind) {
			return nil, problem(field+".type", fmt.Sprintf("the API does not support strategic merge patches of %s, a custom resource; use type merge", c.kind))
		}
	case "":
		out.kind = types.MergePatchType
		if c.kind.typed() {
			out.kind = types.StrategicMergePatchType
		}
	default:
		return nil, problem(field+".type", fmt.Sprintf("%q is not one of json, merge, strategic", typ))
	}
	if p.Template == "" {
		return nil, problem(templateField, "is required")
	}
	if out.template, err = c.compileTemplate(templateField, p.Template); err != nil {
		return nil, err
	}
	if c.kind == KindPod && out.kind == types.StrategicMergePatchType && out.subresource == "status" && out.root == "status" && out.as == "" {
		out.step = kubelet.StepOf(p.Template)
	}
	return out, nil
}

// applying is a compiled apply of a whole object of any kind.
type applying struct {
	field       string
	template    *render.Program
	kind        types.PatchType
	subresource string
	as          string
}

func (c *compiling) compileApply(field string, a *v1alpha1.StageApply) (*applying, *Error) {
	out := &applying{field: field + ".template", subresource: a.Subresource, kind: types.ApplyPatchType}
	var err *Error
	if out.as, err = impersonated(field, a.Impersonation); err != nil {
		return nil, err
	}
	if wrong := badPathPart(a.Subresource); wrong != "" {
		return nil, problem(field+".subresource", wrong)
	}
	if a.Type != nil {
		switch *a.Type {
		case v1alpha1.StageApplyTypeApply, "":
		case v1alpha1.StagePatchTypeMerge:
			out.kind = types.MergePatchType
		case v1alpha1.StagePatchTypeStrategic:
			out.kind = types.StrategicMergePatchType
		default:
			return nil, problem(field+".type", fmt.Sprintf("%q is not one of apply, merge, strategic", *a.Type))
		}
	}
	if a.Template == "" {
		return nil, problem(field+".template", "is required")
	}
	out.template, err = c.compileTemplate(field+".template", a.Template)
	return out, err
}

func (c *compiling) compileTemplate(field, text string) (*render.Program, *Error) {
	t, err := render.Parse(text, c.kind.form())
	if err != nil {
		return nil, problem(field, err.Error())
	}
	return t, nil
}

func impersonated(field string, i *v1alpha1.ImpersonationConfig) (string, *Error) {
	if i == nil {
		return "", nil
	}
	if i.Username == "" {
		return "", problem(field+".impersonation.username", "is required")
	}
	return i.Username, nil
}

// badPathPart rejects names that would change the path of a URL or a JSON pointer.
func badPathPart(text string) string {
	for _, r := range text {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' {
			return limit.Quote(text) + " has characters other than letters, digits, - and _"
		}
	}
	return ""
}
