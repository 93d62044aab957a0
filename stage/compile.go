package stage

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strings"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/stage/limit"
	"github.com/rehearse-k8s/rehearse/stage/expr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Stage is a Stage object as users write it.
type Stage = v1alpha1.Stage

// Set is a compiled set of stages. It is immutable and safe for concurrent use.
type Set struct {
	pods, nodes []*Compiled
	other       map[Kind][]*Compiled
	warnings    []*Error
}

func (s *Set) stages(kind Kind) []*Compiled {
	switch kind {
	case KindPod:
		return s.pods
	case KindNode:
		return s.nodes
	}
	return s.other[kind]
}

// Names returns the names of the stages for a kind, sorted.
func (s *Set) Names(kind Kind) []string {
	var out []string
	for _, c := range s.stages(kind) {
		out = append(out, c.Name)
	}
	return out
}

// Kinds returns the kinds that the set has stages for, sorted.
func (s *Set) Kinds() []Kind {
	var out []Kind
	if len(s.pods) > 0 {
		out = append(out, KindPod)
	}
	if len(s.nodes) > 0 {
		out = append(out, KindNode)
	}
	for kind := range s.other {
		out = append(out, kind)
	}
	slices.SortFunc(out, func(a, b Kind) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// Warnings returns valid input that is probably a mistake: a stage without a selector, which matches nothing, or a
// field that another field overrides.
func (s *Set) Warnings() []*Error { return s.warnings }

// Compiled is one compiled stage.
type Compiled struct {
	Name           string
	Kind           Kind
	weight         int
	weightFrom     *Expression
	needsNodeReady bool
	timer          bool
	Requirements   []Requirement
	delay          *delay
	Operations     []Operation
	// oneUpdate is true if one update of a pod or a node can contain all writes of the stage.
	oneUpdate bool
	file      string
	digest    uint64 // hash of the spec
}

// Compile checks stages and compiles them into a Set. It rejects invalid stages and duplicate names, with one
// *Error per stage, joined.
func Compile(stages []Stage) (*Set, error) {
	set, bad := CompileGood(stages)
	if len(bad) > 0 {
		return nil, joined(bad)
	}
	return set, nil
}

// CompileGood compiles the valid stages, and returns one *Error for each invalid one.
func CompileGood(stages []Stage) (*Set, []*Error) {
	sources := make([]Source, len(stages))
	for i := range stages {
		sources[i].Stage = &stages[i]
	}
	return compileAll(sources)
}

// With returns a new set with the stages of s and of more. It leaves out a stage of more whose name s already has,
// and returns an *Error for it.
func (s *Set) With(more []Stage) (*Set, []*Error) {
	sources := make([]Source, len(more))
	for i := range more {
		sources[i].Stage = &more[i]
	}
	return s.and(sources)
}

// Without returns the set without the named stages.
func (s *Set) Without(names ...string) *Set {
	named := func(c *Compiled) bool { return slices.Contains(names, c.Name) }
	set := &Set{
		pods: slices.DeleteFunc(slices.Clone(s.pods), named), nodes: slices.DeleteFunc(slices.Clone(s.nodes), named),
		other: map[Kind][]*Compiled{}, warnings: s.warnings,
	}
	for kind, list := range s.other {
		if left := slices.DeleteFunc(slices.Clone(list), named); len(left) > 0 {
			set.other[kind] = left
		}
	}
	return set
}

func compileAll(sources []Source) (*Set, []*Error) { return (&Set{}).and(sources) }

func (s *Set) and(sources []Source) (*Set, []*Error) {
	set := &Set{pods: slices.Clone(s.pods), nodes: slices.Clone(s.nodes), other: map[Kind][]*Compiled{}, warnings: slices.Clone(s.warnings)}
	seen := map[string]bool{}
	for kind, list := range s.other {
		set.other[kind] = slices.Clone(list)
	}
	for _, kind := range set.Kinds() {
		for _, c := range set.stages(kind) {
			seen[c.Name] = true
		}
	}
	expressions := &expr.CELCompiler{}
	var bad []*Error
	for i := range sources {
		src := &sources[i]
		c, warnings, err := CompileSource(src, expressions)
		if err == nil && seen[src.Stage.Name] {
			err = problem("metadata.name", "another stage has this name")
		}
		if err != nil {
			bad = append(bad, src.place(err))
			continue
		}
		seen[src.Stage.Name] = true
		set.warnings = append(set.warnings, warnings...)
		switch {
		case c == nil:
		case c.Kind == KindPod:
			set.pods = append(set.pods, c)
		case c.Kind == KindNode:
			set.nodes = append(set.nodes, c)
		default:
			set.other[c.Kind] = append(set.other[c.Kind], c)
		}
	}
	for _, list := range append([][]*Compiled{set.pods, set.nodes}, mapValues(set.other)...) {
		slices.SortFunc(list, func(a, b *Compiled) int { return strings.Compare(a.Name, b.Name) })
	}
	return set, bad
}

func mapValues(m map[Kind][]*Compiled) [][]*Compiled {
	var out [][]*Compiled
	for _, list := range m {
		out = append(out, list)
	}
	return out
}

// compiling is the state of the compilation of one stage.
type compiling struct {
	*Source
	kind     Kind
	cel      *expr.CELCompiler
	warnings []*Error
}

func (c *compiling) warn(field, text string) {
	c.warnings = append(c.warnings, c.place(problem(field, text)))
}

// compile compiles the stage. It returns nil for a stage that can never be chosen.
func (c *compiling) compile() (*Compiled, *Error) {
	s := c.Stage
	if s.Name == "" {
		return nil, problem("metadata.name", "is required")
	}
	if wrong := validation.IsDNS1123Subdomain(s.Name); len(wrong) > 0 {
		return nil, problem("metadata.name", wrong[0])
	}
	if err := c.resolveKind(); err != nil {
		return nil, err
	}
	if s.Spec.Weight < 0 {
		return nil, problem("spec.weight", "must not be negative")
	}
	out := &Compiled{
		Name: s.Name, Kind: c.kind, weight: s.Spec.Weight, file: c.File,
		needsNodeReady: c.kind == KindPod && s.Annotations[NodeReadyAnnotation] == "true",
		timer:          s.Annotations[TimerAnnotation] == "true",
	}
	var err *Error
	if out.digest, err = digestOf(&s.Spec); err != nil {
		return nil, err
	}
	if out.weightFrom, err = c.compileFrom("spec.weightFrom", s.Spec.WeightFrom); err != nil {
		return nil, err
	}
	if s.Spec.Selector != nil {
		if out.Requirements, err = c.compileSelector(s.Spec.Selector); err != nil {
			return nil, err
		}
	}
	if out.delay, err = c.compileDelay(s.Spec.Delay); err != nil {
		return nil, err
	}
	// spec.immediateNextStage has no effect: the engine always chooses the next stage from the answer to its own
	// write.
	if out.Operations, err = c.compileOperations(); err != nil {
		return nil, err
	}
	out.oneUpdate = c.kind.typed() && !slices.ContainsFunc(out.Operations, func(o Operation) bool { return !o.oneUpdate() })
	if s.Spec.Selector == nil {
		c.warn("spec.selector", "a stage without a selector matches nothing; write {} to match every object")
		return nil, nil
	}
	return out, nil
}

// CompileSource compiles one stage. It returns nil for a stage that can never be chosen, and warnings about valid
// input that is probably a mistake.
func CompileSource(src *Source, cel *expr.CELCompiler) (c *Compiled, warnings []*Error, err *Error) {
	work := &compiling{Source: src, cel: cel}
	c, err = work.compile()
	return c, work.warnings, err
}

// SetOf returns the set of compiled stages of one kind.
func SetOf(kind Kind, list []*Compiled) *Set {
	slices.SortFunc(list, func(a, b *Compiled) int { return strings.Compare(a.Name, b.Name) })
	switch kind {
	case KindPod:
		return &Set{pods: list}
	case KindNode:
		return &Set{nodes: list}
	}
	return &Set{other: map[Kind][]*Compiled{kind: list}}
}

// Expressions returns the expressions that compute a weight or a delay.
func (c *Compiled) Expressions() []*Expression {
	all := []*Expression{c.weightFrom}
	if c.delay != nil {
		all = append(all, c.delay.baseFrom, c.delay.jitterFrom)
	}
	return slices.DeleteFunc(all, func(x *Expression) bool { return x == nil })
}

// digestOf returns a hash of a spec, which differs for different specs.
func digestOf(spec *v1alpha1.StageSpec) (uint64, *Error) {
	data, err := json.Marshal(spec)
	if err != nil {
		return 0, problem("spec", err.Error())
	}
	h := fnv.New64a()
	_, _ = h.Write(data)
	return h.Sum64(), nil
}

func (c *compiling) resolveKind() *Error {
	ref := c.Stage.Spec.ResourceRef
	if ref.Kind == "" {
		return problem("spec.resourceRef.kind", "is required")
	}
	if strings.ContainsAny(ref.Kind, "/. ") {
		return problem("spec.resourceRef.kind", fmt.Sprintf("%s is not the name of a kind", limit.Quote(ref.Kind)))
	}
	version := ref.APIGroup
	if version == "" {
		version = "v1"
	}
	gv, err := schema.ParseGroupVersion(version)
	if err != nil || gv.Version == "" {
		return problem("spec.resourceRef.apiGroup", fmt.Sprintf("%s is not a group and version such as apps/v1", limit.Quote(ref.APIGroup)))
	}
	if gv.Group == "" && gv.Version != "v1" {
		return problem("spec.resourceRef.apiGroup", fmt.Sprintf("%s has no group; write group and version, such as apps/v1", limit.Quote(ref.APIGroup)))
	}
	c.kind = properName(Kind{APIVersion: version, Kind: ref.Kind})
	return nil
}

// properName returns the kind for the name of a resource. KWOK looks up the resource by the name of the kind
// (controller.go, ResourceFor), so its files may also contain configmaps or configmap. Here this works for
// Kubernetes' own kinds.
func properName(k Kind) Kind {
	name := strings.ToLower(k.Kind)
	for _, example := range builtinKinds[k.APIVersion] {
		proper := Kind{APIVersion: k.APIVersion, Kind: reflect.TypeOf(example).Elem().Name()}
		plural, singular := meta.UnsafeGuessKindToResource(proper.GroupVersionKind())
		if name == plural.Resource || name == singular.Resource {
			return proper
		}
	}
	return k
}
