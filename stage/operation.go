package stage

import (
	"fmt"

	"github.com/rehearse-k8s/rehearse/api/v1alpha1"
)

// operation is one thing a stage does. Exactly one field is set.
type operation struct {
	event      *v1alpha1.StageEvent
	finalizers *v1alpha1.StageFinalizers
	delete     bool
	patch      *patch
}

// compileOperations brings next and steps into one list. Order: within a step
// event, finalizers, delete, patch; within next event, finalizers, patches (or
// the status template), delete. Next counts only where there are no steps.
func compileOperations(s *Stage, kind Kind, natives map[string]nativePatch) ([]operation, *Error) {
	if len(s.Spec.Steps) > 0 {
		var out []operation
		for i := range s.Spec.Steps {
			field := fmt.Sprintf("spec.steps[%d]", i)
			more, err := compileStep(field, &s.Spec.Steps[i], kind, natives)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
		return out, nil
	}
	if s.Spec.Next == nil {
		return nil, problem("spec.steps", "a stage needs steps or next")
	}
	return compileNext(s.Spec.Next, kind, natives)
}

func compileStep(field string, s *v1alpha1.StageStep, kind Kind, natives map[string]nativePatch) ([]operation, *Error) {
	if s.Apply != nil {
		return nil, notYet(field+".apply", "")
	}
	out, err := compileEventAndFinalizers(field, s.Event, s.Finalizers)
	if err != nil {
		return nil, err
	}
	if s.Delete {
		out = append(out, operation{delete: true})
	}
	if s.Patch != nil {
		p, err := compilePatch(field+".patch", s.Patch, kind, natives)
		if err != nil {
			return nil, err
		}
		out = append(out, operation{patch: p})
	}
	if len(out) == 0 {
		return nil, problem(field, "is empty: it needs an event, finalizers, delete or patch")
	}
	return out, nil
}

func compileNext(n *v1alpha1.StageNext, kind Kind, natives map[string]nativePatch) ([]operation, *Error) {
	out, err := compileEventAndFinalizers("spec.next", n.Event, n.Finalizers)
	if err != nil {
		return nil, err
	}
	switch {
	case len(n.Patches) > 0 && n.StatusTemplate != "":
		return nil, problem("spec.next.statusTemplate", "is not used where there are patches; remove one of the two")
	case n.StatusPatchAs != nil:
		return nil, notYet("spec.next.statusPatchAs", "")
	case n.StatusSubresource != nil && *n.StatusSubresource != "status":
		return nil, notYet("spec.next.statusSubresource", fmt.Sprintf("%q; only status is", *n.StatusSubresource))
	case n.StatusTemplate != "":
		p, err := compileStatusTemplate("spec.next.statusTemplate", n.StatusTemplate, "", kind, natives)
		if err != nil {
			return nil, err
		}
		out = append(out, operation{patch: p})
	}
	for i := range n.Patches {
		p, err := compilePatch(fmt.Sprintf("spec.next.patches[%d]", i), &n.Patches[i], kind, natives)
		if err != nil {
			return nil, err
		}
		out = append(out, operation{patch: p})
	}
	if n.Delete {
		out = append(out, operation{delete: true})
	}
	return out, nil
}

func compileEventAndFinalizers(field string, e *v1alpha1.StageEvent, f *v1alpha1.StageFinalizers) ([]operation, *Error) {
	var out []operation
	if e != nil {
		if e.Type != "" && e.Type != "Normal" && e.Type != "Warning" {
			return nil, problem(field+".event.type", fmt.Sprintf("%q is not Normal or Warning", e.Type))
		}
		out = append(out, operation{event: e})
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
		out = append(out, operation{finalizers: f})
	}
	return out, nil
}

func compilePatch(field string, p *v1alpha1.StagePatch, kind Kind, natives map[string]nativePatch) (*patch, *Error) {
	var typ v1alpha1.StagePatchType
	if p.Type != nil {
		typ = *p.Type
	}
	switch {
	case p.Impersonation != nil:
		return nil, notYet(field+".impersonation", "")
	case p.Subresource != "status":
		return nil, notYet(field+".subresource", fmt.Sprintf("%q; only status is", p.Subresource))
	case p.Root != "status":
		return nil, notYet(field+".root", fmt.Sprintf("%q; only status is", p.Root))
	case p.Template == "":
		return nil, problem(field+".template", "is required")
	case typ == v1alpha1.StagePatchTypeJSON:
		return nil, notYet(field+".type", "json; merge and strategic are")
	case typ != "" && typ != v1alpha1.StagePatchTypeMerge && typ != v1alpha1.StagePatchTypeStrategic:
		return nil, problem(field+".type", fmt.Sprintf("%q is not one of json, merge, strategic", typ))
	}
	return compileStatusTemplate(field+".template", p.Template, typ, kind, natives)
}

func compileStatusTemplate(field, text string, typ v1alpha1.StagePatchType, kind Kind, natives map[string]nativePatch) (*patch, *Error) {
	t, err := parseTemplate(text, kind)
	if err != nil {
		return nil, problem(field, err.Error())
	}
	p := &patch{template: t, merge: typ == v1alpha1.StagePatchTypeMerge}
	if !p.merge {
		p.native = natives[text]
	}
	return p, nil
}
