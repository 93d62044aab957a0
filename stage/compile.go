package stage

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Stage is a Stage object as users write it.
type Stage = v1alpha1.Stage

// Set is a compiled set of stages. It never changes and may be used from any
// number of goroutines.
type Set struct {
	pods, nodes []*compiled
}

func (s *Set) stages(kind Kind) []*compiled {
	switch kind {
	case KindPod:
		return s.pods
	case KindNode:
		return s.nodes
	}
	return nil
}

// Names lists the stages for a kind, sorted.
func (s *Set) Names(kind Kind) []string {
	var out []string
	for _, c := range s.stages(kind) {
		out = append(out, c.name)
	}
	return out
}

// compiled is one stage, ready to be asked.
type compiled struct {
	name           string
	kind           Kind
	weight         int
	needsNodeReady bool
	requirements   []requirement
	delay          *delay
	operations     []operation
}

// Compile checks stages and makes them ready. It refuses, with one *Error per
// stage joined together, everything that is malformed or not supported yet, and
// two stages with one name.
func Compile(stages []Stage) (*Set, error) {
	return compileAll(stages, func(int) string { return "" })
}

func compileAll(stages []Stage, file func(i int) string) (*Set, error) {
	set := &Set{}
	natives := builtinPatches()
	seen := map[string]bool{}
	var failed []error
	for i := range stages {
		c, err := compileStage(&stages[i], natives)
		if err == nil && seen[c.name] {
			err = problem("metadata.name", "another stage has this name")
		}
		if err != nil {
			err.File, err.Stage = file(i), stages[i].Name
			failed = append(failed, err)
			continue
		}
		seen[c.name] = true
		switch c.kind {
		case KindPod:
			set.pods = append(set.pods, c)
		case KindNode:
			set.nodes = append(set.nodes, c)
		}
	}
	if len(failed) > 0 {
		return nil, errors.Join(failed...)
	}
	byName := func(a, b *compiled) int { return strings.Compare(a.name, b.name) }
	slices.SortFunc(set.pods, byName)
	slices.SortFunc(set.nodes, byName)
	return set, nil
}

func compileStage(s *Stage, natives map[string]nativePatch) (*compiled, *Error) {
	if s.Name == "" {
		return nil, problem("metadata.name", "is required")
	}
	if wrong := validation.IsDNS1123Subdomain(s.Name); len(wrong) > 0 {
		return nil, problem("metadata.name", wrong[0])
	}
	ref := s.Spec.ResourceRef
	if ref.Kind == "" {
		return nil, problem("spec.resourceRef.kind", "is required")
	}
	kind := Kind(ref.Kind)
	if (ref.APIGroup != "" && ref.APIGroup != "v1") || (kind != KindNode && kind != KindPod) {
		return nil, notYet("spec.resourceRef", fmt.Sprintf("%s %s; only v1 Node and v1 Pod are", ref.APIGroup, ref.Kind))
	}
	if s.Spec.WeightFrom != nil {
		return nil, notYet("spec.weightFrom", "")
	}
	if s.Spec.Weight < 0 {
		return nil, problem("spec.weight", "must not be negative")
	}
	c := &compiled{
		name: s.Name, kind: kind, weight: s.Spec.Weight,
		needsNodeReady: kind == KindPod && s.Annotations[NodeReadyAnnotation] == "true",
	}
	var err *Error
	if c.requirements, err = compileSelector(s.Spec.Selector, kind); err != nil {
		return nil, err
	}
	if c.delay, err = compileDelay(s.Spec.Delay, kind); err != nil {
		return nil, err
	}
	// spec.immediateNextStage needs nothing: the engine always chooses the next
	// stage from the answer to its own write.
	if c.operations, err = compileOperations(s, kind, natives); err != nil {
		return nil, err
	}
	return c, nil
}
